// cli: the one file that includes nlohmann/json.hpp.
#include "json.hpp"

#include <nlohmann/json.hpp>

namespace vramlink::cli {

struct JsonObject::State {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();

  template <class Value>
  void set(std::string_view key, Value&& value) {
    object[std::string(key)] = std::forward<Value>(value);
  }
};

JsonObject::JsonObject() : state_(std::make_unique<State>()) {}
JsonObject::JsonObject(std::string_view schema) : JsonObject() { set("schema", schema); }
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;
JsonObject::~JsonObject() = default;

JsonObject& JsonObject::set(std::string_view key, std::string_view value) {
  state_->set(key, std::string(value));
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, const char* value) {
  return set(key, std::string_view(value));
}
JsonObject& JsonObject::set(std::string_view key, bool value) {
  state_->set(key, value);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, double value) {
  state_->set(key, value);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, std::uint64_t value) {
  state_->set(key, value);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, std::uint32_t value) {
  state_->set(key, value);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, std::int64_t value) {
  state_->set(key, value);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, std::int32_t value) {
  state_->set(key, value);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, const std::vector<std::uint64_t>& values) {
  state_->set(key, values);
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, const std::vector<JsonObject>& values) {
  auto array = nlohmann::ordered_json::array();
  for (const JsonObject& each : values) array.push_back(each.state_->object);
  state_->set(key, std::move(array));
  return *this;
}
JsonObject& JsonObject::set(std::string_view key, JsonObject value) {
  state_->set(key, std::move(value.state_->object));
  return *this;
}
JsonObject& JsonObject::set_null(std::string_view key) {
  state_->set(key, nullptr);
  return *this;
}

JsonObject& JsonObject::set_error(const Error& error) {
  return set("error", name(error.code())).set("error_text", to_string(error));
}

std::string JsonObject::line() const {
  return state_->object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace vramlink::cli
