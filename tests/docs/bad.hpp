#pragma once

/// @file
/// Names without documentation, and with it: what docs.every_public_name_is_documented must find, and must not.
namespace matrixfsdp {

struct Bare {
  int documented_in_bare = 0;  ///< in a structure that is not
};

void bare_function();

enum class BareEnum { one };

/// An enumeration of which one value is documented.
enum class Color {
  documented_value,  ///< this one
  bare_value,
};

/// Documented, unlike some of its members.
struct Documented {
  int documented_member = 0;  ///< this one
  int bare_member = 0;
  friend bool operator==(const Documented&, const Documented&) = default;

 private:
  int hidden_member_ = 0;
};

namespace detail {
void hidden_function();
}

namespace nn::detail {
struct hidden_struct {};
}  // namespace nn::detail

/// Documented.
void documented_function();

}  // namespace matrixfsdp

/// @namespace matrixfsdp
/// Of the test.
