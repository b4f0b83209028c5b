#include <filesystem>

#include "support/checkpoint_run.hpp"

namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::CheckpointRun;
using testing::common_message_of;
using testing::mentions;
using testing::on_rank_zero;
using testing::parameter;
using testing::read_bytes;
using testing::SharedFolder;
using testing::training_state;
using testing::world;

namespace fs = std::filesystem;

class Damage : public ::testing::Test {
 protected:
  Damage() : folder(world()), run(world(), make_plan(checkpoint_model(), world().size())) {
    run.fill(1);
    for (const std::int64_t step : {1, 2})
      io::save_checkpoint(folder.path(), run.model, *run.optimizer, training_state(step));
  }

  [[nodiscard]] std::string last_file() const {
    return folder / "step_00000002/" + io::read_manifest(folder / "step_00000002").files.back().name;
  }

  /// Replaces bytes of a file of step 2, checks that load and find_latest see it, and puts the file right again.
  void expect_found(const std::string& path, const std::function<std::string(std::string)>& change,
                    std::initializer_list<std::string_view> words) {
    const std::string good = read_bytes(path);
    on_rank_zero(world(), [&] { write(path, change(good)); });
    EXPECT_TRUE(mentions(load_error<IoError>(), words));
    EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000001");
    on_rank_zero(world(), [&] { write(path, good); });
    EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000002");
  }

  /// What --resume auto does, and that it ends with the values of fill(1).
  void expect_resumed_from(std::int64_t step) {
    run.fill(2);
    const auto loaded = io::load_latest(folder.path(), run.model, *run.optimizer);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->folder, folder / ("step_0000000" + std::to_string(step)));
    EXPECT_EQ(loaded->state.step, step);
    CheckpointRun expected(world(), make_plan(checkpoint_model(), world().size()));
    expected.fill(1);
    for (std::size_t i = 0; i < run.model.resident().size(); ++i) {
      const auto& found = run.model.resident()[i].weight;
      EXPECT_TRUE(std::equal(found.data(), found.data() + found.size(), expected.model.resident()[i].weight.data()));
    }
  }

  template <class E>
  std::string load_error() {
    return load_error<E>(run);
  }

  template <class E>
  std::string load_error(CheckpointRun& other) {
    return common_message_of<E>(world(),
                                [&] { io::load_checkpoint(folder / "step_00000002", other.model, *other.optimizer); });
  }

  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  SharedFolder folder;
  CheckpointRun run;
};

// CASES 62, and whatever else a disk may do to a file.
TEST_F(Damage, OfAFileIsFound) {
  const std::string path = last_file();
  const auto size = static_cast<std::size_t>(fs::file_size(path));
  for (const std::size_t position : {std::size_t{0}, size / 3, size / 2, size - 1}) {
    expect_found(path,
                 [&](std::string bytes) {
                   bytes[position] = static_cast<char>(bytes[position] ^ 0x20);
                   return bytes;
                 },
                 {path, "damaged"});
  }
  expect_found(path, [](const std::string& bytes) { return bytes.substr(0, bytes.size() - 1); }, {path, "bytes"});
  expect_found(path, [](const std::string& bytes) { return bytes + std::string(1000, 'x'); }, {path, "bytes"});
  expect_found(path, [](const std::string&) { return std::string(); }, {path, "0 bytes"});
}

// What other programs read is no worse guarded.
TEST_F(Damage, OfTheIndexIsFound) {
  const std::string path = folder / "step_00000002/checkpoint.h5";
  expect_found(path,
               [](std::string bytes) {
                 bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x01);
                 return bytes;
               },
               {path, "damaged"});
}

TEST_F(Damage, MissingFileIsNamed) {
  const std::string path = last_file();
  on_rank_zero(world(), [&] { fs::remove(path); });
  EXPECT_TRUE(mentions(load_error<IoError>(), {path, "No such file"}));
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000001");
}

TEST_F(Damage, EditedManifestIsRefused) {
  const std::string path = folder / "step_00000002/manifest.json";
  expect_found(path,
               [](std::string text) {
                 const std::size_t field = text.find("\"optimizer_steps\": 1");
                 EXPECT_NE(field, std::string::npos);
                 return text.replace(field, 20, "\"optimizer_steps\": 2");
               },
               {path, "edited"});
  expect_found(path, [](const std::string& text) { return text.substr(0, text.size() / 2); }, {path, "not JSON"});
}

TEST_F(Damage, FolderWithoutManifestIsNotACheckpoint) {
  on_rank_zero(world(), [&] { fs::remove(folder / "step_00000002/manifest.json"); });
  EXPECT_TRUE(mentions(load_error<InputError>(), {"step_00000002", "manifest.json"}));
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000001");
  on_rank_zero(world(), [&] { fs::remove_all(folder / "step_00000001"); });
  EXPECT_TRUE(mentions(common_message_of<IoError>(world(), [&] { io::find_latest(world(), folder.path()); }),
                       {folder.path(), "no valid checkpoint", "step_00000002"}));
}

// A file that is whole, and is not the one that the manifest means.
TEST_F(Damage, ManifestThatDoesNotFitTheFileIsFound) {
  on_rank_zero(world(), [&] {
    io::Manifest manifest = io::read_manifest(folder / "step_00000002");
    for (io::StoredSegment& segment : manifest.segments) {
      if (segment.parameter == "norm" && segment.what == "weight") segment.checksum ^= 1;
    }
    write(folder / "step_00000002/manifest.json", to_text(manifest));
  });
  EXPECT_TRUE(mentions(load_error<IoError>(), {"/parameters/norm", "checksum", "manifest"}));
  expect_resumed_from(1);  // find_latest sees nothing wrong with its files, but the data are
}

TEST_F(Damage, RunGoesOnFromTheNewestValidStep) {
  expect_resumed_from(2);
  const std::string path = last_file();
  on_rank_zero(world(), [&] { fs::resize_file(path, fs::file_size(path) - 1); });
  expect_resumed_from(1);
  on_rank_zero(world(), [&] { fs::remove(folder / "step_00000001/manifest.json"); });
  EXPECT_TRUE(
      mentions(common_message_of<IoError>(world(), [&] { io::load_latest(folder.path(), run.model, *run.optimizer); }),
               {folder.path(), "no valid checkpoint", path}));
  EXPECT_EQ(io::load_latest(folder / "nowhere", run.model, *run.optimizer), std::nullopt);
}

// Another model is no damage: an older step is no way out.
TEST_F(Damage, AnotherModelIsNotPassedOver) {
  ModelSpec model = checkpoint_model();
  model.units[1].parameters[0].shape = {7, 18};
  CheckpointRun other(world(), make_plan(model, world().size()), model);
  EXPECT_TRUE(mentions(
      common_message_of<InputError>(world(), [&] { io::load_latest(folder.path(), other.model, *other.optimizer); }),
      {"'block.0.up'", "(18, 7)", "(7, 18)"}));
}

TEST_F(Damage, ShardsOfOthersAreFound) {
  const std::string path = last_file();
  const std::string name = fs::path(path).filename();
  // Of another step of this run: the optimizer state has moved on.
  run.step(1);
  io::save_checkpoint(folder.path(), run.model, *run.optimizer, training_state(3));
  const std::string later = read_bytes(folder / "step_00000003/" + name);
  run.fill(3);
  io::save_checkpoint(folder / "other", run.model, *run.optimizer, training_state(2));
  const std::string foreign = read_bytes(folder / "other/step_00000002/" + name);
  on_rank_zero(world(), [&] { fs::remove_all(folder / "step_00000003"); });
  for (const std::string& bytes : {later, foreign}) {
    on_rank_zero(world(), [&] { write(path, bytes); });
    EXPECT_TRUE(mentions(load_error<IoError>(), {path, "manifest says"}));
    expect_resumed_from(1);
  }
}

TEST_F(Damage, SwappedShardsAreFound) {
  if (world().size() == 1) return;  // one shard has no other
  const std::string first = folder / "step_00000002/rank_00000.h5";
  const std::string last = last_file();
  on_rank_zero(world(), [&] {
    fs::rename(first, folder / "aside");
    fs::rename(last, first);
    fs::rename(folder / "aside", last);
  });
  EXPECT_TRUE(mentions(load_error<IoError>(), {"rank_0000", "manifest says"}));
  expect_resumed_from(1);
}

// CASES 62: any bit of any file, headers included. Reading verifies in this way before HDF5 sees a byte.
TEST_F(Damage, AnyFlippedBitIsFound) {
  on_rank_zero(world(), [&] {
    const std::string step = folder / "step_00000002";
    const io::Manifest manifest = io::read_manifest(step);
    for (const auto& entry : fs::directory_iterator(step)) {
      const std::string path = entry.path();
      const std::string good = read_bytes(path);
      for (std::size_t k = 0; k < 400; ++k) {
        std::string bad = good;
        const std::size_t position = k * good.size() / 400;
        bad[position] = static_cast<char>(bad[position] ^ (1 << (k % 8)));
        write(path, bad);
        const auto verify = [&] {
          for (const io::StoredFile& file : io::read_manifest(step).files)
            io::verify_file(step, file);
        };
        EXPECT_THROW(verify(), IoError) << path << ", byte " << position << ", bit " << k % 8;
      }
      write(path, good);
    }
    EXPECT_EQ(to_text(io::read_manifest(step)), to_text(manifest));
  });
}

// CASES 57
TEST_F(Damage, MissingMomentumIsNamed) {
  on_rank_zero(world(), [&] {
    io::Manifest manifest = io::read_manifest(folder / "step_00000002");
    std::erase_if(manifest.segments, [](const io::StoredSegment& segment) {
      return segment.parameter == "block.1.mix" && segment.what == "momentum";
    });
    write(folder / "step_00000002/manifest.json", to_text(manifest));
  });
  EXPECT_TRUE(mentions(load_error<InputError>(), {"'block.1.mix'", "none", "momentum"}));
}

TEST_F(Damage, OtherOptimizerIsNamed) {
  CheckpointRun adamw(world(), make_plan(checkpoint_model(), world().size()), checkpoint_model(),
                      MatrixOptimizer::adamw);
  EXPECT_TRUE(mentions(load_error<InputError>(adamw), {"'block.", "momentum", "first_moment, second_moment"}));
}

TEST_F(Damage, OtherModelIsNamed) {
  const auto error_of = [&](const std::function<void(ModelSpec&)>& change) {
    ModelSpec model = checkpoint_model();
    change(model);
    CheckpointRun other(world(), make_plan(model, world().size()), model);
    return load_error<InputError>(other);
  };
  EXPECT_TRUE(mentions(error_of([](ModelSpec& m) { m.units[0].parameters.push_back(parameter("new", {3})); }),
                       {"'new'", "missing", "(3)"}));
  EXPECT_TRUE(
      mentions(error_of([](ModelSpec& m) { m.units[2].parameters.pop_back(); }), {"'block.1.frozen'", "unexpected"}));
  EXPECT_TRUE(mentions(error_of([](ModelSpec& m) {
                         m.units[1].parameters[0].shape = {7, 18};
                       }),
                       {"'block.0.up'", "(18, 7)", "(7, 18)"}));
  EXPECT_TRUE(mentions(error_of([](ModelSpec& m) { m.tied.clear(); }), {"'head'", "'table'", "tied"}));
  EXPECT_TRUE(mentions(error_of([](ModelSpec& m) { m.units[0].parameters[2].frozen = false; }),
                       {"'scale'", "none", "first_moment"}));
  EXPECT_TRUE(mentions(error_of([](ModelSpec& m) { m.units[0].parameters[1].frozen = true; }),
                       {"'norm'", "first_moment", "none"}));
}

}  // namespace
}  // namespace matrixfsdp
