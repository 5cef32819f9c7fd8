// cli: JSON objects for stdout. Hides the library behind them, which one file includes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/error.hpp>

namespace vramlink::cli {

/// One object; members keep their order. Text that is not UTF-8 is repaired when printed.
class JsonObject {
 public:
  JsonObject();
  /// With "schema" first.
  explicit JsonObject(std::string_view schema);
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject&&) noexcept;
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;
  ~JsonObject();

  JsonObject& set(std::string_view key, std::string_view value);
  JsonObject& set(std::string_view key, const char* value);
  JsonObject& set(std::string_view key, bool value);
  JsonObject& set(std::string_view key, double value);
  JsonObject& set(std::string_view key, std::uint64_t value);
  JsonObject& set(std::string_view key, std::uint32_t value);
  JsonObject& set(std::string_view key, std::int64_t value);
  JsonObject& set(std::string_view key, std::int32_t value);
  JsonObject& set(std::string_view key, const std::vector<std::uint64_t>& values);
  JsonObject& set(std::string_view key, const std::vector<JsonObject>& values);
  JsonObject& set(std::string_view key, JsonObject value);
  JsonObject& set_null(std::string_view key);
  /// "error", the name of its code, and "error_text", what fail() says.
  JsonObject& set_error(const Error& error);

  /// One line, with a newline.
  [[nodiscard]] std::string line() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vramlink::cli
