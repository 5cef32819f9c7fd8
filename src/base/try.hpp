// Passing an error on in one line. Statement expressions are a GNU extension that clang shares; the
// alternative, a named temporary at every call, hides the code it serves.
#pragma once

#include <utility>

// Each use has a name of its own, so that one may stand inside another.
#define VRAMLINK_TRY_JOIN_NOW(a, b) a##b
#define VRAMLINK_TRY_JOIN(a, b) VRAMLINK_TRY_JOIN_NOW(a, b)
// NOLINTBEGIN(bugprone-macro-parentheses): `result` is a name to declare.
#define VRAMLINK_TRY_NAMED(result, expression)     \
  __extension__({                                  \
    auto result = (expression);                    \
    if (!result) return std::move(result).error(); \
    *std::move(result);                            \
  })
// NOLINTEND(bugprone-macro-parentheses)

/// Evaluates to the value of a Result, or returns its error from the enclosing function.
#define VRAMLINK_TRY(expression) \
  VRAMLINK_TRY_NAMED(VRAMLINK_TRY_JOIN(vramlink_try_, __COUNTER__), expression)

/// The same for Result<void>.
#define VRAMLINK_CHECK(expression)                                               \
  do {                                                                           \
    auto vramlink_check_result = (expression);                                   \
    if (!vramlink_check_result) return std::move(vramlink_check_result).error(); \
  } while (false)
