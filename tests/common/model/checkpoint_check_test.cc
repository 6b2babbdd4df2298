#include "common/model/checkpoint_check.h"

#include <limits>
#include <string>
#include <vector>

#include "common/model/field_fault.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

std::string Faults(const v1::JobSpec& spec) {
  std::vector<FieldFault> faults;
  CheckCheckpoint(spec, &faults);
  std::string fields;
  for (const FieldFault& fault : faults) fields += fault.field + ";";
  return fields;
}

TEST(CheckpointCheckTest, TakesStepsSecondsOrBoth) {
  v1::JobSpec spec;
  EXPECT_EQ(Faults(spec), "");
  spec.mutable_checkpoint()->set_every_steps(10);
  EXPECT_EQ(Faults(spec), "");
  spec.mutable_checkpoint()->set_every_seconds(0.5);
  spec.mutable_checkpoint()->set_keep(1);
  EXPECT_EQ(Faults(spec), "");
}

TEST(CheckpointCheckTest, NamesTheFieldThatIsWrong) {
  v1::JobSpec spec;
  spec.mutable_checkpoint();
  EXPECT_EQ(Faults(spec), "checkpoint;");
  spec.mutable_checkpoint()->set_every_seconds(-1);
  EXPECT_EQ(Faults(spec), "checkpoint.every_seconds;");
  spec.mutable_checkpoint()->set_every_seconds(std::numeric_limits<double>::quiet_NaN());
  spec.mutable_checkpoint()->set_keep(0);
  EXPECT_EQ(Faults(spec), "checkpoint.every_seconds;checkpoint.keep;");
}

TEST(CheckpointCheckTest, ResumeFromIsJobOrJobAndStep) {
  v1::JobSpec spec;
  for (const char* good : {"7", "7/100", "mnist", "mnist-2.a/0"}) {
    spec.set_resume_from(good);
    EXPECT_EQ(Faults(spec), "") << good;
  }
  for (const char* bad : {"/", "7/", "/100", "7/x", "7/1/2", "a b", "7/-1"}) {
    spec.set_resume_from(bad);
    EXPECT_EQ(Faults(spec), "resume_from;") << bad;
  }
}

TEST(CheckpointCheckTest, KeepsTwoByDefault) {
  v1::JobSpec spec;
  ResolveCheckpoint(&spec);
  EXPECT_FALSE(spec.has_checkpoint());
  spec.mutable_checkpoint()->set_every_steps(10);
  ResolveCheckpoint(&spec);
  EXPECT_EQ(spec.checkpoint().keep(), 2u);
  spec.mutable_checkpoint()->set_keep(5);
  ResolveCheckpoint(&spec);
  EXPECT_EQ(spec.checkpoint().keep(), 5u);
}

}  // namespace
}  // namespace sangam
