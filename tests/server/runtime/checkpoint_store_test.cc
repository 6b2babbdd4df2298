#include "server/runtime/checkpoint_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/model/model_layout.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/runtime/checkpoint_input.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/checkpoint_output.h"
#include "server/runtime/disk.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kPage = 300'000;

v1::JobSpec Spec(const std::string& name) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "seed: 7 model { input_shape: [1000] block { name: 'a' layer { linear { out_features: 600 } "
      "} } block { name: 'b' layer { linear { out_features: 3 } } } } loss { softmax_cross_entropy "
      "{} } optimizer { learning_rate: 0.1 adamw { beta1: 0.9 } } batch { size: 8 } epochs: 2",
      &spec));
  spec.set_name(name);
  return spec;
}

v1::ModelLayout Layout() { return *BuildModelLayout(Spec("x").model()); }

CheckpointManifest Manifest(uint64_t job, uint64_t step, const std::string& name = "mnist") {
  CheckpointManifest manifest;
  manifest.job = job;
  manifest.step = step;
  manifest.updates = step - 1;
  manifest.samples = step * 8;
  manifest.train_samples = 100;
  manifest.time = absl::FromUnixMicros(1'700'000'000'123'456);
  manifest.layout_hash = LayoutHash(Layout());
  manifest.state_names = {"exp_avg", "exp_avg_sq"};
  manifest.spec = Spec(name);
  return manifest;
}

CheckpointLayout FilesLayout() {
  return *CheckpointLayout::Create(Layout(), {"exp_avg", "exp_avg_sq"});
}

// Array `array` of a page is filled with numbers that say where they belong.
std::string Payload(uint64_t step, uint32_t segment, uint64_t first, uint64_t count,
                    uint32_t variant = 0) {
  std::vector<uint32_t> values;
  for (uint32_t array = 0; array < 3; ++array) {
    for (uint64_t i = 0; i < count; ++i) {
      values.push_back(
          static_cast<uint32_t>((array * 7 + segment) * 1'000'003 + first + i + step + variant));
    }
  }
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

v1::FrameHeader Header(uint64_t job, uint64_t step, uint32_t segment, uint64_t first,
                       uint64_t count) {
  v1::FrameHeader header;
  header.set_job(job);
  header.set_step(step);
  header.set_segment(segment);
  header.set_first_element(first);
  header.set_element_count(count);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_kind(v1::FRAME_KIND_STATE);
  return header;
}

// Calls `visit(segment, first, count)` for every page.
template <typename Visit>
void ForEachPage(const Visit& visit) {
  const v1::ModelLayout layout = Layout();
  for (int s = layout.segment_size() - 1; s >= 0; --s) {
    const uint64_t length = layout.segment(s).element_count();
    for (uint64_t first = 0; first < length; first += kPage) {
      visit(static_cast<uint32_t>(s), first, std::min(kPage, length - first));
    }
  }
}

absl::Status Write(const CheckpointStore& store, uint64_t job, uint64_t step,
                   const std::string& name = "mnist", uint32_t variant = 0) {
  absl::StatusOr<std::unique_ptr<CheckpointOutput>> output =
      store.BeginOutput(Manifest(job, step, name), FilesLayout());
  if (!output.ok()) return output.status();
  absl::Status status;
  ForEachPage([&](uint32_t segment, uint64_t first, uint64_t count) {
    status.Update((*output)->Add(Header(job, step, segment, first, count),
                                 Payload(step, segment, first, count, variant)));
  });
  if (!status.ok()) return status;
  return (*output)->Commit().status();
}

std::vector<std::string> Names(const absl::StatusOr<std::vector<v1::Checkpoint>>& list) {
  EXPECT_TRUE(list.ok()) << list.status();
  std::vector<std::string> names;
  if (!list.ok()) return names;
  for (const v1::Checkpoint& checkpoint : *list) {
    names.push_back(absl::StrCat(checkpoint.job(), "/", checkpoint.step()));
  }
  return names;
}

void Damage(const std::string& path, uint64_t offset) {
  absl::StatusOr<std::string> bytes = testing::ReadFile(path);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_LT(offset, bytes->size());
  (*bytes)[offset] = static_cast<char>((*bytes)[offset] ^ 1);
  testing::WriteFile(path, *bytes);
}

TEST(CheckpointStoreTest, WhatIsReadIsWhatWasWrittenForAnyPages) {
  const CheckpointStore store(testing::FreshFolder("bits"));
  ASSERT_TRUE(Write(store, 3, 10).ok());
  const auto input = store.OpenInput(3, 10);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ((*input)->manifest().updates, 9u);
  EXPECT_TRUE((*input)->Verify().ok());
  for (const uint64_t page : {kPage, uint64_t{1000}, uint64_t{77777}, uint64_t{600'600}}) {
    for (uint64_t first = 0; first < 600'600; first += page) {
      const uint64_t count = std::min(page, 600'600 - first);
      const auto read = (*input)->Read(0, first, count);
      ASSERT_TRUE(read.ok()) << read.status();
      ASSERT_TRUE(*read == Payload(10, 0, first, count)) << page << " " << first;
    }
  }
  EXPECT_TRUE(*(*input)->Read(1, 0, 1803) == Payload(10, 1, 0, 1803));
}

TEST(CheckpointStoreTest, ListsAndFinds) {
  const CheckpointStore store(testing::FreshFolder("list"));
  EXPECT_EQ(store.LargestJob(), 0u);
  for (const uint64_t step : {30, 4, 20}) ASSERT_TRUE(Write(store, 2, step).ok());
  ASSERT_TRUE(Write(store, 11, 5).ok());
  ASSERT_TRUE(Write(store, 3, 6, "other").ok());
  EXPECT_THAT(Names(store.List("")), ElementsAre("2/4", "2/20", "2/30", "3/6", "11/5"));
  EXPECT_THAT(Names(store.List("2")), ElementsAre("2/4", "2/20", "2/30"));
  EXPECT_THAT(Names(store.List("mnist")), ElementsAre("11/5"));
  EXPECT_EQ(store.List("7").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.LargestJob(), 11u);
  EXPECT_EQ(store.Get("2")->step(), 30u);
  EXPECT_EQ(store.Get("2/4")->step(), 4u);
  EXPECT_EQ(store.Get("other")->job(), 3u);
  EXPECT_EQ(store.Get("other")->spec().optimizer().adamw().beta1(), 0.9f);
  EXPECT_EQ(store.Get("2/5").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.Get("2/x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Get("../2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.SummariesOf(2).size(), 3u);
  ASSERT_TRUE(store.Prune(2, 2, 30).ok());
  EXPECT_THAT(Names(store.List("2")), ElementsAre("2/20", "2/30"));
  ASSERT_TRUE(store.RemoveJob(2).ok());
  EXPECT_THAT(Names(store.List("")), ElementsAre("3/6", "11/5"));
}

TEST(CheckpointStoreTest, WhatKilledProcessesLeftIsRemovedWithTheNextCheckpoint) {
  const std::string root = testing::FreshFolder("left");
  const CheckpointStore store(root);
  ASSERT_TRUE(Write(store, 1, 10).ok());
  for (const char* name : {"step-4.removed", "step-15.partial"}) {
    ASSERT_TRUE(Disk::Real().MakeFolder(absl::StrCat(root, "/1/", name)).ok());
    testing::WriteFile(absl::StrCat(root, "/1/", name, "/weights.safetensors"), "x");
  }
  ASSERT_TRUE(Write(store, 1, 20).ok());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/1")) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, UnorderedElementsAre("step-10", "step-20"));
}

// Remembers which folders reach the disk.
class SyncingDisk : public Disk {
 public:
  absl::Status SyncFolder(const std::string& path) override {
    synced.push_back(path);
    return Disk::SyncFolder(path);
  }
  std::vector<std::string> synced;
};

TEST(CheckpointStoreTest, TheNameOfANewJobsFolderReachesTheDisk) {
  const std::string root = testing::FreshFolder("synced");
  SyncingDisk disk;
  ASSERT_TRUE(Write(CheckpointStore(root, &disk), 4, 10).ok());
  EXPECT_THAT(disk.synced, IsSupersetOf({root, root + "/4"}));
  EXPECT_FALSE(Disk::Real().SyncFolder(root + "/5").ok());
}

TEST(CheckpointStoreTest, WhatIsNeededStaysWhenTheOldestGo) {
  const CheckpointStore store(testing::FreshFolder("needed"));
  for (const uint64_t step : {10, 20, 30, 40}) ASSERT_TRUE(Write(store, 2, step).ok());
  ASSERT_TRUE(store.Prune(2, 1, 40, {20}).ok());
  EXPECT_THAT(Names(store.List("2")), ElementsAre("2/20", "2/40"));
}

TEST(CheckpointStoreTest, WhatIsDamagedDoesNotTakeThePlaceOfWhatIsGood) {
  const std::string root = testing::FreshFolder("damaged-newer");
  const CheckpointStore store(root);
  for (const uint64_t step : {10, 20, 30, 40}) ASSERT_TRUE(Write(store, 2, step).ok());
  // The job went back to 10, since what is newer is damaged, and has come to 25 again.
  for (const char* step : {"20", "40"}) {
    testing::WriteFile(absl::StrCat(root, "/2/step-", step, "/MANIFEST"), "{}");
  }
  ASSERT_TRUE(Write(store, 2, 25).ok());
  ASSERT_TRUE(store.Prune(2, 2, 25).ok());
  EXPECT_THAT(Names(store.List("2")), ElementsAre("2/10", "2/25", "2/30"));
  // However little the job keeps, it is not nothing.
  ASSERT_TRUE(store.Prune(2, 0, 25).ok());
  EXPECT_THAT(Names(store.List("2")), ElementsAre("2/25", "2/30"));
}

// A disk that is nearly full.
class SmallDisk : public Disk {
 public:
  absl::StatusOr<uint64_t> FreeBytes(const std::string& /*path*/) override { return 10; }
};

TEST(CheckpointStoreTest, WhatThereIsNoRoomForIsNotBegun) {
  const std::string root = testing::FreshFolder("small");
  SmallDisk disk;
  const absl::Status status = Write(CheckpointStore(root, &disk), 4, 10);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(std::filesystem::is_empty(root));
}

TEST(CheckpointStoreTest, WhatAKilledProcessLeftIsRemoved) {
  const std::string root = testing::FreshFolder("leftovers");
  const CheckpointStore store(root);
  ASSERT_TRUE(store.RemoveLeftovers().ok());
  ASSERT_TRUE(Write(store, 2, 10).ok());
  const std::string job = root + "/2/";
  for (const std::string name : {"step-20.partial", "step-5.removed", "mine.partial"}) {
    ASSERT_TRUE(Disk::Real().MakeFolder(job + name).ok());
  }
  ASSERT_TRUE(store.RemoveLeftovers().ok());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(job)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("mine.partial", "step-10"));
}

TEST(CheckpointStoreTest, DamageIsFoundWithFileAndOffset) {
  const std::string root = testing::FreshFolder("damage");
  const CheckpointStore store(root);
  ASSERT_TRUE(Write(store, 1, 8).ok());
  ASSERT_TRUE(store.Verify("1").ok()) << store.Verify("1").status();
  const auto expect = [&](const std::string& file, uint64_t offset,
                          const std::vector<std::string>& parts) {
    const std::string path = absl::StrCat(root, "/1/step-8/", file);
    Damage(path, offset);
    const absl::Status status = store.Verify("1/8").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
    Damage(path, offset);
    EXPECT_TRUE(store.Verify("1/8").ok());
  };
  expect("weights.safetensors", 3, {"weights.safetensors, offset 0:", "found", "expected"});
  expect("weights.safetensors", 2'400'000, {"weights.safetensors, offset 2097152:"});
  expect("optimizer.safetensors", 1'048'576, {"optimizer.safetensors, offset 1048576:"});
  expect("MANIFEST", 40, {"MANIFEST"});
  const std::string weights = absl::StrCat(root, "/1/step-8/weights.safetensors");
  const std::string bytes = *testing::ReadFile(weights);
  testing::WriteFile(weights, bytes.substr(0, 1000));
  const absl::Status status = store.Verify("1/8").status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("weights.safetensors, offset 1000: found 1000 bytes"));
}

// The layout depends on the loss: with numbers as targets each output is a term.
TEST(CheckpointStoreTest, ACheckpointOfAJobThatPredictsNumbersIsRead) {
  const CheckpointStore store(testing::FreshFolder("numbers"));
  CheckpointManifest manifest = Manifest(1, 8);
  manifest.spec.mutable_loss()->mutable_mean_squared_error();
  const v1::ModelLayout layout = *BuildModelLayout(manifest.spec.model(), manifest.spec.loss());
  EXPECT_NE(layout.terms_per_sample(), Layout().terms_per_sample());
  manifest.layout_hash = LayoutHash(layout);
  const auto output = store.BeginOutput(manifest, FilesLayout());
  ASSERT_TRUE(output.ok()) << output.status();
  ForEachPage([&](uint32_t segment, uint64_t first, uint64_t count) {
    EXPECT_TRUE((*output)
                    ->Add(Header(1, 8, segment, first, count), Payload(8, segment, first, count))
                    .ok());
  });
  ASSERT_TRUE((*output)->Commit().ok());
  const absl::Status status = store.FindToResume("1").status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckpointStoreTest, AManifestKnowsTheKindOfItsWorkers) {
  for (const char* kind : {"", "cpu", "cuda (\"H\", native BF16)"}) {
    CheckpointManifest manifest = Manifest(1, 8);
    manifest.worker_kind = kind;
    const auto text = EncodeManifest(manifest);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto decoded = DecodeManifest(*text);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->worker_kind, kind);
  }
}

TEST(CheckpointStoreTest, AManifestThatIsNestedTooDeepIsRefused) {
  const std::string root = testing::FreshFolder("deep");
  const CheckpointStore store(root);
  ASSERT_TRUE(Write(store, 1, 8).ok());
  const std::string open(2'000'000, '[');
  const std::string close(2'000'000, ']');
  testing::WriteFile(
      root + "/1/step-8/MANIFEST",
      absl::StrCat("{\"checksum\": \"a\", \"content\": {\"a\": ", open, close, "}}"));
  EXPECT_EQ(store.Get("1").status().code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointStoreTest, ResumesFromTheNewestGoodOneAndSaysWhatItSkipped) {
  const std::string root = testing::FreshFolder("newest");
  const CheckpointStore store(root);
  for (const uint64_t step : {10, 20, 30}) ASSERT_TRUE(Write(store, 1, step).ok());
  EXPECT_EQ(store.FindToResume("1")->manifest.step, 30u);
  Damage(root + "/1/step-30/MANIFEST", 100);
  Damage(root + "/1/step-20/weights.safetensors", 50'000);
  const auto found = store.FindToResume("mnist");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.step, 10u);
  EXPECT_THAT(found->skipped, ElementsAre(HasSubstr("MANIFEST"), HasSubstr("offset 0")));
  EXPECT_EQ(store.FindToResume("1/20").status().code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointStoreTest, RefusesPagesThatDoNotFit) {
  const CheckpointStore store(testing::FreshFolder("refuses"));
  const auto output = store.BeginOutput(Manifest(1, 5), FilesLayout());
  ASSERT_TRUE(output.ok());
  const std::string payload = Payload(5, 1, 0, 10);
  EXPECT_TRUE((*output)->Add(Header(1, 5, 1, 0, 10), payload).ok());
  for (const v1::FrameHeader& header :
       {Header(2, 5, 1, 10, 10), Header(1, 6, 1, 10, 10), Header(1, 5, 2, 0, 10),
        Header(1, 5, 1, 9, 10), Header(1, 5, 1, 1800, 10), Header(1, 5, 1, 10, 11)}) {
    EXPECT_EQ((*output)->Add(header, payload).code(), absl::StatusCode::kInvalidArgument)
        << header.DebugString();
  }
  EXPECT_EQ((*output)->Commit().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Names(store.List("")), ElementsAre());
}

// Ends the process instead of the operation of a number, counted from 1.
class KilledDisk : public Disk {
 public:
  explicit KilledDisk(int last, bool exchanges = true) : left_(last), exchanges_(exchanges) {}
  absl::Status MakeFolder(const std::string& path) override {
    Count();
    return Disk::MakeFolder(path);
  }
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    Count();
    return Disk::Create(path);
  }
  absl::Status Write(const File& file, uint64_t offset, absl::string_view bytes) override {
    Count();
    return Disk::Write(file, offset, bytes);
  }
  absl::Status Sync(const File& file) override {
    Count();
    return Disk::Sync(file);
  }
  absl::Status SyncFolder(const std::string& path) override {
    Count();
    return Disk::SyncFolder(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    Count();
    return Disk::Rename(from, to);
  }
  absl::Status Exchange(const std::string& one, const std::string& other) override {
    Count();
    return exchanges_ ? Disk::Exchange(one, other) : absl::UnimplementedError("cannot");
  }
  absl::Status RemoveFolder(const std::string& path) override {
    Count();
    return Disk::RemoveFolder(path);
  }

 private:
  void Count() {
    if (--left_ == 0) _exit(9);
  }
  int left_;
  const bool exchanges_;
};

TEST(CheckpointStoreTest, KilledBetweenAnyTwoOperationsLeavesNothingOrAll) {
  const std::string root = testing::FreshFolder("killed");
  const CheckpointStore store(root);
  ASSERT_TRUE(Write(store, 1, 10).ok());
  int killed = 0;
  bool finished = false;
  for (int last = 1; !finished; ++last) {
    ASSERT_LT(last, 100);
    const pid_t child = fork();
    if (child == 0) {
      KilledDisk disk(last);
      const bool ok = Write(CheckpointStore(root, &disk), 1, 20).ok();
      _exit(ok ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    finished = WEXITSTATUS(status) == 0;
    if (!finished) {
      ASSERT_EQ(WEXITSTATUS(status), 9);
      ++killed;
    }
    const std::vector<std::string> names = Names(store.List(""));
    // Killed after the rename: the checkpoint is there, and whole.
    for (const std::string& name : names) EXPECT_TRUE(store.Verify(name).ok()) << name;
    if (finished || names.size() == 2) {
      EXPECT_THAT(names, ElementsAre("1/10", "1/20"));
      ASSERT_TRUE(Disk::Real().RemoveFolder(root + "/1/step-20").ok());
    } else {
      EXPECT_THAT(names, ElementsAre("1/10"));
      EXPECT_EQ(store.FindToResume("1")->manifest.step, 10u);
    }
  }
  EXPECT_GT(killed, 15);
}

TEST(CheckpointStoreTest, KilledWhileAStepIsWrittenAgainLeavesTheOneThatIsThere) {
  const std::string root = testing::FreshFolder("again");
  const CheckpointStore store(root);
  ASSERT_TRUE(Write(store, 1, 20).ok());
  bool finished = false;
  for (int last = 1; !finished; ++last) {
    ASSERT_LT(last, 100);
    const pid_t child = fork();
    if (child == 0) {
      KilledDisk disk(last);
      _exit(Write(CheckpointStore(root, &disk), 1, 20).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    finished = WEXITSTATUS(status) == 0;
    ASSERT_TRUE(store.Verify("1/20").ok()) << last;
  }
  // Nothing else remains.
  EXPECT_FALSE(std::filesystem::exists(root + "/1/step-20.partial"));
  // A damaged one is no reason to keep it.
  Damage(root + "/1/step-20/" + CheckpointLayout::kFileNames[0], 1000);
  ASSERT_FALSE(store.Verify("1/20").ok());
  ASSERT_TRUE(Write(store, 1, 20).ok());
  EXPECT_TRUE(store.Verify("1/20").ok());
}

// The first numbers of the checkpoint of step 20, which tell the variant; why there is none that is
// good.
std::string VariantOf(const CheckpointStore& store) {
  const absl::StatusOr<std::unique_ptr<CheckpointInput>> input = store.OpenInput(1, 20);
  if (!input.ok()) return std::string(input.status().message());
  if (const absl::Status good = (*input)->Verify(); !good.ok()) return std::string(good.message());
  const std::string bytes = *(*input)->Read(1, 0, 100);
  for (const uint32_t variant : {0, 1}) {
    if (bytes == Payload(20, 1, 0, 100, variant)) return absl::StrCat("variant ", variant);
  }
  return "neither";
}

std::vector<std::string> FoldersOf(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

class ReplaceTest : public ::testing::TestWithParam<bool> {};

TEST_P(ReplaceTest, KilledWhileAnotherTakesItsPlaceLeavesOneOfTheTwo) {
  const bool exchanges = GetParam();
  const std::string root = testing::FreshFolder(exchanges ? "exchanged" : "aside");
  const CheckpointStore store(root);
  std::set<std::string> seen;
  std::string found;
  bool finished = false;
  for (int last = 1; !finished; ++last) {
    ASSERT_LT(last, 100);
    if (found != "variant 0") {
      ASSERT_TRUE(store.RemoveJob(1).ok());
      ASSERT_TRUE(Write(store, 1, 20).ok());
    }
    const pid_t child = fork();
    if (child == 0) {
      KilledDisk disk(last, exchanges);
      _exit(Write(CheckpointStore(root, &disk), 1, 20, "mnist", 1).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 1) << last;
    finished = WEXITSTATUS(status) == 0;
    const std::string at_once = VariantOf(store);
    // Where names cannot be exchanged it may take the next process to see it.
    ASSERT_TRUE(store.RemoveLeftovers().ok());
    found = VariantOf(store);
    EXPECT_TRUE(found == "variant 0" || found == "variant 1") << last << ": " << found;
    if (exchanges) {
      EXPECT_EQ(at_once, found) << last;
    }
    EXPECT_THAT(FoldersOf(root + "/1"), ElementsAre("step-20"));
    seen.insert(found);
  }
  EXPECT_EQ(VariantOf(store), "variant 1");
  EXPECT_EQ(seen.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Disks, ReplaceTest, ::testing::Bool());

TEST(CheckpointStoreTest, WhatStoodAsideIsThereAgainWhenTheNextOneIsBegun) {
  const std::string root = testing::FreshFolder("stood-aside");
  const CheckpointStore store(root);
  for (const uint64_t step : {10, 20}) ASSERT_TRUE(Write(store, 1, step).ok());
  ASSERT_TRUE(Disk::Real().Rename(root + "/1/step-20", root + "/1/step-20.replaced").ok());
  ASSERT_TRUE(Disk::Real().MakeFolder(root + "/1/step-10.replaced").ok());
  ASSERT_TRUE(Write(store, 1, 30).ok());
  EXPECT_THAT(FoldersOf(root + "/1"), UnorderedElementsAre("step-10", "step-20", "step-30"));
  EXPECT_EQ(VariantOf(store), "variant 0");
}

}  // namespace
}  // namespace sangam
