#pragma once

#include <stdexcept>
#include <string>

namespace matrixfsdp {

/// Base of every exception that this library throws. The message is one line that names the thing, the value that was
/// met and what was expected. Only `main` catches it (see run_main in comm/session.hpp).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's input is wrong: an option, a file, a model specification. Programs print the line once and exit with 2.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A caller broke a stated precondition of a function.
class ContractError : public Error {
 public:
  using Error::Error;
};

/// A message did not arrive in time, a peer disagrees, or MPI failed.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// A file could not be read or written, or does not hold what its checksum says.
class IoError : public Error {
 public:
  using Error::Error;
};

/// A device, or a library that computes on it, failed: the call, its status, and the extents it was given.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// Throws ContractError with `message` unless `condition` holds. For preconditions whose message names no value; one
/// that does is built behind an `if`, so that a check that holds costs nothing.
inline void require(bool condition, const char* message) {
  if (!condition) throw ContractError(message);
}

}  // namespace matrixfsdp
