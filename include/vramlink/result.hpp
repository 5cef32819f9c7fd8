// Result<T>: a value or an Error, with std::expected's member names.
#ifndef VRAMLINK_RESULT_HPP
#define VRAMLINK_RESULT_HPP

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <vramlink/error.hpp>

namespace vramlink::inline v0 {

namespace detail {
/// Ends the process after saying which error nobody asked for: a Result was dereferenced that has
/// none of what was wanted.
[[noreturn]] VRAMLINK_API void misused_result(const Error* error) noexcept;
}  // namespace detail

/// Either a T or an Error. operator* and operator-> need has_value(), error() needs its absence:
/// else the process ends with a line that says so. value() throws Exception instead.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>)
      : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) noexcept : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& operator*() & noexcept { return *checked(); }
  [[nodiscard]] const T& operator*() const& noexcept { return *checked(); }
  /// Of a temporary the value itself: a reference would outlive it.
  [[nodiscard]] T operator*() && noexcept { return std::move(*checked()); }
  [[nodiscard]] T* operator->() noexcept { return checked(); }
  [[nodiscard]] const T* operator->() const noexcept { return checked(); }

  /// The value, or throws Exception. May be called for the throw alone.
  T& value() & {
    require();
    return **this;
  }
  const T& value() const& {  // NOLINT(modernize-use-nodiscard)
    require();
    return **this;
  }
  T value() && {
    require();
    return std::move(*checked());
  }
  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return has_value() ? std::move(*checked()) : static_cast<T>(std::forward<U>(other));
  }

  /// Needs !has_value().
  [[nodiscard]] Error& error() & noexcept { return *checked_error(); }
  [[nodiscard]] const Error& error() const& noexcept { return *checked_error(); }
  [[nodiscard]] Error&& error() && noexcept { return std::move(*checked_error()); }
  /// True if this failed with `code`.
  [[nodiscard]] bool failed_with(Code code) const noexcept {
    return !has_value() && error().code() == code;
  }

 private:
  void require() const {
    if (!has_value()) throw Exception(error());
  }
  [[nodiscard]] T* checked() noexcept {
    if (!has_value()) [[unlikely]]
      detail::misused_result(std::get_if<1>(&state_));
    return std::get_if<0>(&state_);
  }
  [[nodiscard]] const T* checked() const noexcept {
    if (!has_value()) [[unlikely]]
      detail::misused_result(std::get_if<1>(&state_));
    return std::get_if<0>(&state_);
  }
  [[nodiscard]] Error* checked_error() noexcept {
    if (has_value()) [[unlikely]]
      detail::misused_result(nullptr);
    return std::get_if<1>(&state_);
  }
  [[nodiscard]] const Error* checked_error() const noexcept {
    if (has_value()) [[unlikely]]
      detail::misused_result(nullptr);
    return std::get_if<1>(&state_);
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() noexcept = default;
  Result(Error error) noexcept : error_(std::move(error)) {}

  [[nodiscard]] bool has_value() const noexcept { return !error_; }
  [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (error_) throw Exception(*error_);
  }
  [[nodiscard]] Error& error() & noexcept { return *checked_error(); }
  [[nodiscard]] const Error& error() const& noexcept { return *checked_error(); }
  [[nodiscard]] Error&& error() && noexcept { return std::move(*checked_error()); }
  [[nodiscard]] bool failed_with(Code code) const noexcept {
    return error_ && error_->code() == code;
  }

 private:
  [[nodiscard]] Error* checked_error() noexcept {
    if (!error_) [[unlikely]]
      detail::misused_result(nullptr);
    return &*error_;
  }
  [[nodiscard]] const Error* checked_error() const noexcept {
    if (!error_) [[unlikely]]
      detail::misused_result(nullptr);
    return &*error_;
  }

  std::optional<Error> error_;
};

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_RESULT_HPP
