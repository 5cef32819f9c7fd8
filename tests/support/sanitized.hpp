// Whether this is a build with a sanitizer of addresses or of threads, in which processes take many
// times as long.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VRAMLINK_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VRAMLINK_TEST_SANITIZED 1
#endif
#endif
