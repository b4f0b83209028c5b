#pragma once

#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

/// What an exception says.
namespace matrixfsdp::test {

/// The message of the exception of type E that `body` throws; an empty string, and a failed test, where it throws none.
template <class E, class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "expected an exception";
  return {};
}

/// `text` contains every one of `parts`.
inline ::testing::AssertionResult mentions(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) == std::string_view::npos) {
      return ::testing::AssertionFailure() << '"' << text << "\" does not mention \"" << part << '"';
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace matrixfsdp::test
