#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace matrixfsdp::tokenize {

/// Passes the ids of a text file on in blocks, in their order: decimal numbers from 0 to `largest`, with blanks, tabs
/// and ends of lines between them. Throws InputError, with file and line, for anything else, and for a file that cannot
/// be read.
void read_ids(const std::string& path, std::int64_t largest,
              const std::function<void(std::span<const std::int32_t> ids)>& take);

}  // namespace matrixfsdp::tokenize
