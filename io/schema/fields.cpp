#include "io/schema/fields.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::io {
namespace {

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

Fields::Fields(const Json& object, std::string source, std::string path)
    : object_(object), source_(std::move(source)), path_(std::move(path)) {
  if (!object_.is_object()) fail(path_.empty() ? "(everything)" : path_, shown(object_), "a JSON object");
}

std::string Fields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Fields::fail(std::string_view path, std::string_view found, std::string_view expected) const {
  throw IoError(fmt::format("'{}': field {} is {}; expected {}", source_, path, found, expected));
}

void Fields::refuse(const char* key, const InputError& error) const {
  throw IoError(fmt::format("'{}': field {}: {}", source_, path_of(key), error.what()));
}

const Json& Fields::get(const char* key) {
  const auto field = object_.find(key);
  if (field == object_.end()) fail(path_of(key), "missing", "it to be there");
  seen_.insert(key);
  return *field;
}

const Json& Fields::get(const char* key, bool (Json::*is_type)() const noexcept, const char* expected) {
  const Json& value = get(key);
  if (!(value.*is_type)()) fail(path_of(key), shown(value), expected);
  return value;
}

std::int64_t Fields::integer(const char* key, std::int64_t minimum, std::int64_t maximum) {
  const Json& value = get(key, &Json::is_number_integer, "an integer");
  const bool fits = !value.is_number_unsigned() ||
                    value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!fits || value.get<std::int64_t>() < minimum || value.get<std::int64_t>() > maximum) {
    fail(path_of(key), shown(value), fmt::format("an integer from {} to {}", minimum, maximum));
  }
  return value.get<std::int64_t>();
}

std::uint64_t Fields::unsigned_integer(const char* key) {
  return get(key, &Json::is_number_unsigned, "an integer of 0 or more").get<std::uint64_t>();
}

double Fields::number(const char* key) {
  const Json& value = get(key, &Json::is_number, "a number");
  if (!std::isfinite(value.get<double>())) fail(path_of(key), shown(value), "a finite number");
  return value.get<double>();
}

bool Fields::boolean(const char* key) {
  return get(key, &Json::is_boolean, "true or false").get<bool>();
}

std::string Fields::text(const char* key) {
  return get(key, &Json::is_string, "text").get<std::string>();
}

std::vector<std::int64_t> Fields::integers(const char* key) {
  std::vector<std::int64_t> values;
  each(key, [&](const Json& element, const std::string& path) {
    Json wrapped;
    wrapped[path] = element;
    values.push_back(Fields(wrapped, source_, "").integer(path.c_str(), 0));
  });
  return values;
}

std::uint64_t Fields::checksum(const char* key) {
  const std::string digits = text(key);
  const auto value = parse_checksum(digits);
  if (!value) fail(path_of(key), "\"" + digits + "\"", "16 hexadecimal digits");
  return *value;
}

const Json& Fields::object(const char* key) {
  return get(key, &Json::is_object, "a JSON object");
}

bool Fields::is_null(const char* key) {
  return get(key).is_null();
}

void Fields::require_format(std::string_view name, std::int64_t version) {
  const std::string format = text("format");
  if (format != name) fail("format", fmt::format("\"{}\"", format), fmt::format("\"{}\"", name));
  const std::int64_t found = integer("format_version");
  if (found != version)
    fail("format_version", std::to_string(found), fmt::format("{}, which this program reads", version));
}

void Fields::finish() const {
  for (const auto& item : object_.items()) {
    if (!seen_.contains(item.key())) fail(path_of(item.key()), "unknown", "only the fields of the format");
  }
}

}  // namespace matrixfsdp::io
