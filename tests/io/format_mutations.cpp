#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/index_file.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "support/mutations.hpp"
#include "support/process_use.hpp"
#include "support/stored_checkpoint.hpp"
#include "support/temporary_folder.hpp"
#include "support/with_checksum.hpp"

/// Thousands of damaged files through the readers: errors of their own, nothing else; wrong data never. Deterministic.
namespace matrixfsdp {
namespace {

using testing::mutated;
using testing::read_bytes;
using testing::resident_bytes;
using testing::store_checkpoint;
using testing::stored_tensor;
using testing::stored_value;
using testing::TemporaryFolder;
using testing::with_checksum;

constexpr std::int64_t allowed_growth = std::int64_t{64} << 20;

/// True where `body` returns; IoError is the only exception that a damaged file may cause.
bool accepted(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const IoError& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000U) << "one line, whatever the file holds";
    return false;
  }
}

ModelSpec little_model() {
  ModelSpec model;
  model.units.push_back({"root", {testing::parameter("norm", {17}), test::embedding("table", {60, 3})}, true});
  model.units.push_back({"block", {testing::parameter("up", {6, 5}), test::frozen("scale", {4})}});
  model.tied.push_back({"head", "table"});
  return model;
}

TEST(Mutations, OfSafetensorsHeaders) {
  const TemporaryFolder folder;
  const std::string path = folder / "good.safetensors";
  {
    io::SafetensorsWriter writer(path, {{"a", "F32", {3, 4}}, {"b", "BF16", {5}}, {"c", "F32", {}}},
                                 {{"format", "pt"}});
    writer.append(std::vector<std::byte>(48 + 10 + 4));
    writer.close();
  }
  const std::string good = read_bytes(path);
  const std::int64_t before = resident_bytes();
  int refused = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const std::string bad = mutated(good, 1, i);
    const auto size = static_cast<std::int64_t>(bad.size());
    const bool taken = accepted([&] {
      const auto header = io::parse_safetensors(std::as_bytes(std::span(bad)), size, "f");
      std::int64_t next = 0;  // whatever is accepted covers the data exactly, and is within the file
      for (const io::SafetensorsEntry& entry : header.tensors) {
        EXPECT_EQ(entry.bytes.begin, next);
        EXPECT_EQ(entry.bytes.size(), element_count(entry.shape) * io::safetensors_size_of(entry.dtype));
        next = entry.bytes.end;
      }
      EXPECT_EQ(header.data_offset + next, size);
    });
    refused += taken ? 0 : 1;
  }
  EXPECT_GT(refused, 5000);
  EXPECT_LT(resident_bytes() - before, allowed_growth);
}

TEST(Mutations, OfManifests) {
  const TemporaryFolder folder;
  const std::string step = store_checkpoint(folder / "a", little_model(), 2);
  const std::string good = read_bytes(step + "/manifest.json");
  const std::int64_t before = resident_bytes();
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::string bad = mutated(good, 2, i);
    EXPECT_EQ(accepted([&] { io::parse_manifest(bad, "m"); }), bad == good) << i;
  }
  // Behind a checksum that fits: what is accepted is a valid manifest that is written as it was read.
  int refused = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::string bad = with_checksum(mutated(good, 3, i));
    const bool taken = accepted([&] {
      const io::Manifest manifest = io::parse_manifest(bad, "m");
      const std::string again = to_text(manifest);
      EXPECT_EQ(to_text(io::parse_manifest(again, "m")), again);
    });
    refused += taken ? 0 : 1;
  }
  EXPECT_GT(refused, 2500);
  EXPECT_LT(resident_bytes() - before, allowed_growth);
}

/// Reads everything; true where nothing was found wrong.
bool reads_everything(const std::string& step, std::uint64_t seed) {
  return accepted([&] {
    io::CheckpointReader reader(step);
    for (const io::StoredFile& file : reader.manifest().files)
      reader.verify(file);
    io::verify_index_file(step, reader.manifest());
    for (const auto& [tensor, segments] : reader.tensors()) {
      const std::string name(tensor.first);
      const std::string what(tensor.second);
      const auto values = stored_tensor(reader, name, what);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], stored_value(seed, name, what, static_cast<std::int64_t>(i)));
    }
  });
}

TEST(Mutations, OfTensorFilesAndTheIndex) {
  const TemporaryFolder folder;
  const std::string step = store_checkpoint(folder / "a", little_model(), 2);
  EXPECT_TRUE(reads_everything(step, 1));
  const std::int64_t before = resident_bytes();
  for (const char* name : {"/rank_00000.h5", "/rank_00001.h5", "/checkpoint.h5"}) {
    const std::string good = read_bytes(step + name);
    const std::string path = std::string("a/step_00000012") + name;
    for (std::uint64_t i = 0; i < 1500; ++i) {
      const std::string bad = mutated(good, 4, i);
      folder.write(path, bad);
      EXPECT_EQ(reads_everything(step, 1), bad == good) << name << ' ' << i;
    }
    folder.write(path, good);
  }
  EXPECT_TRUE(reads_everything(step, 1));
  EXPECT_LT(resident_bytes() - before, allowed_growth);
}

// CASES 62: every bit of every file of a checkpoint, one at a time.
TEST(Mutations, EverySingleBitIsFound) {
  const TemporaryFolder folder;
  const std::string step = store_checkpoint(folder / "a", little_model(), 2);
  const io::Manifest manifest = io::read_manifest(step);
  for (const auto& entry : std::filesystem::directory_iterator(step)) {
    const std::string good = read_bytes(entry.path());
    const std::string name = entry.path().filename();
    const auto stored = std::find_if(manifest.files.begin(), manifest.files.end(),
                                     [&name](const io::StoredFile& one) { return one.name == name; });
    ASSERT_EQ(stored == manifest.files.end(), name == "manifest.json") << name;
    const auto verify = [&] {  // what reading does before it believes a byte
      if (stored == manifest.files.end())
        io::read_manifest(step);
      else
        io::verify_file(step, *stored);
    };
    verify();
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&file](std::size_t position, char value) {
      file.seekp(static_cast<std::streamoff>(position));
      file.put(value).flush();
    };
    std::size_t accepted_bits = 0;
    for (std::size_t position = 0; position < good.size(); ++position) {
      for (int bit = 0; bit < 8; ++bit) {
        put(position, static_cast<char>(good[position] ^ (1 << bit)));
        accepted_bits += accepted(verify) ? 1 : 0;
      }
      put(position, good[position]);
    }
    EXPECT_EQ(accepted_bits, 0U) << name;
    verify();
  }
}

// CASES 62, and files that are whole but another's: of another run, another step, another rank.
TEST(Mutations, SwappedFilesAreFound) {
  const TemporaryFolder folder;
  const std::string step = store_checkpoint(folder / "a", little_model(), 2, 12, 1);
  const std::string other = store_checkpoint(folder / "b", little_model(), 2, 12, 2);
  const std::string later = store_checkpoint(folder / "c", little_model(), 2, 13, 1);
  EXPECT_TRUE(reads_everything(other, 2));
  const std::string mine = read_bytes(step + "/rank_00000.h5");
  for (const std::string& from : {other + "/rank_00000.h5", step + "/rank_00001.h5", other + "/checkpoint.h5"}) {
    folder.write("a/step_00000012/rank_00000.h5", read_bytes(from));
    EXPECT_FALSE(reads_everything(step, 1)) << from;
  }
  folder.write("a/step_00000012/rank_00000.h5", mine);
  const std::string index = read_bytes(step + "/checkpoint.h5");
  folder.write("a/step_00000012/checkpoint.h5", read_bytes(later + "/checkpoint.h5"));
  EXPECT_FALSE(reads_everything(step, 1));
  folder.write("a/step_00000012/checkpoint.h5", index);
  EXPECT_TRUE(reads_everything(step, 1));
}

}  // namespace
}  // namespace matrixfsdp
