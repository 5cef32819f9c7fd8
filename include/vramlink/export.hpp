// Visibility of public symbols. Everything else in the library is hidden.
#ifndef VRAMLINK_EXPORT_HPP
#define VRAMLINK_EXPORT_HPP

#if __cplusplus < 202002L
#error "vramlink needs C++20: compile with -std=c++20 or newer"
#endif

#if defined(VRAMLINK_STATIC)
#define VRAMLINK_API
#else
#define VRAMLINK_API __attribute__((visibility("default")))
#endif

#endif  // VRAMLINK_EXPORT_HPP
