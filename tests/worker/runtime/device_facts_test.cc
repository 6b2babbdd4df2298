#include "worker/runtime/device_facts.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/backend/backends.h"
#include "worker/backend/cpu/cpu_backend.h"

namespace sangam {
namespace {

TEST(DeviceFactsTest, TheCpuHasKernelsAlone) {
  const absl::StatusOr<v1::DeviceFacts> facts = DescribeDevice("cpu", 0);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->compute_capability(), CpuKernelSet());
  EXPECT_EQ(facts->name(), "");
  EXPECT_EQ(facts->memory_bytes(), 0u);
}

TEST(DeviceFactsTest, AreThoseOfTheBackend) {
  BackendKind kind;
  kind.name = "abacus";
  kind.describe = [](int device) -> absl::StatusOr<BackendDevice> {
    if (device > 1) return absl::FailedPreconditionError("found 2 devices");
    BackendDevice facts;
    facts.name = absl::StrCat("Abacus ", device);
    facts.memory_bytes = 7;
    facts.compute_capability = "1.2";
    facts.driver = "3.4";
    facts.runtime = "5.6";
    return facts;
  };
  ASSERT_TRUE(RegisterBackend(kind));
  const absl::StatusOr<v1::DeviceFacts> facts = DescribeDevice("abacus", 1);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->name(), "Abacus 1");
  EXPECT_EQ(facts->memory_bytes(), 7u);
  EXPECT_EQ(facts->compute_capability(), "1.2");
  EXPECT_EQ(facts->driver(), "3.4");
  EXPECT_EQ(facts->runtime(), "5.6");
  EXPECT_EQ(DescribeDevice("abacus", 2).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(DeviceFactsTest, AnUnknownBackendIsAnError) {
  EXPECT_EQ(DescribeDevice("slide rule", 0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
