#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {

/// Keeps the order in which fields are written, for people who read the file.
using Json = nlohmann::ordered_json;

/// Strict reader of one JSON object: every field that is asked for must be there, of its type and range; finish()
/// refuses those that were not asked for. Throws IoError: source, field ("segments[3].begin"), what is there, what was
/// expected.
class Fields {
 public:
  Fields(const Json& object, std::string source, std::string path);

  std::int64_t integer(const char* key, std::int64_t minimum = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t maximum = std::numeric_limits<std::int64_t>::max());
  std::uint64_t unsigned_integer(const char* key);
  double number(const char* key);  ///< finite
  bool boolean(const char* key);
  std::string text(const char* key);
  std::uint64_t checksum(const char* key);
  /// What `parse` makes of a text; the InputError that it throws for an unknown one becomes an IoError with the field.
  template <class Parse>
  auto choice(const char* key, const Parse& parse) {
    const std::string name = text(key);
    try {
      return parse(name);
    } catch (const InputError& error) {
      refuse(key, error);
    }
  }
  std::vector<std::int64_t> integers(const char* key);  ///< an array, each 0 or more
  const Json& object(const char* key);
  /// Calls visit(element, path) for each element of an array.
  template <class Visit>
  void each(const char* key, const Visit& visit) {
    const Json& array = get(key, &Json::is_array, "an array");
    for (std::size_t i = 0; i < array.size(); ++i)
      visit(array[i], path_of(key) + "[" + std::to_string(i) + "]");
  }
  /// Whether an optional field is there.
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  /// True, and the field is done, where it is null.
  bool is_null(const char* key);

  /// "format" and "format_version" are these.
  void require_format(std::string_view name, std::int64_t version);

  void finish() const;

  [[noreturn]] void fail(std::string_view path, std::string_view found, std::string_view expected) const;
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  [[noreturn]] void refuse(const char* key, const InputError& error) const;
  const Json& get(const char* key);
  const Json& get(const char* key, bool (Json::*is_type)() const noexcept, const char* expected);

  const Json& object_;
  std::string source_;
  std::string path_;
  std::set<std::string, std::less<>> seen_;
};

/// What has been read must be valid too: IoError with the source instead of validate's InputError.
template <class T>
void require_valid(const T& value, const std::string& source) {
  try {
    validate(value);
  } catch (const InputError& error) {
    throw IoError("'" + source + "': " + error.what());
  }
}

}  // namespace matrixfsdp::io
