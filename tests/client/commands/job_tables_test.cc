#include "client/commands/job_tables.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'100);

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

TEST(JobTablesTest, ListOfJobs) {
  const auto jobs = Parse<v1::ListJobsResponse>(R"pb(
    job {
      id: 12
      spec { name: "fashion-mnist-mlp" }
      state: RUNNING
      history {
        state: QUEUED
        time { seconds: 1700000000 }
      }
      progress { steps_done: 437 steps_total: 705 loss: 0.3567 samples_per_second: 24103.2 }
      evaluation { accuracy: 0.5 }
      evaluation { accuracy: 0.83 }
    }
    job {
      id: 3
      spec { name: "x" }
      state: QUEUED
      history {
        state: QUEUED
        time { seconds: 1699990000 }
      }
    }
    more: true
  )pb");
  EXPECT_EQ(FormatJobList(jobs, kNow),
            "JOB  NAME               STATE    DONE    STEPS    LOSS  ACCURACY  SAMPLES/S    AGE\n"
            " 12  fashion-mnist-mlp  RUNNING   61%  437/705  0.3567    0.8300      24103  1m40s\n"
            "  3  x                  QUEUED      -        0       -         -          -  2h48m\n"
            "Older jobs: --limit=0 shows all.\n");
}

TEST(JobTablesTest, EmptyListsSayWhatToDo) {
  EXPECT_EQ(FormatJobList(v1::ListJobsResponse(), kNow),
            "No jobs. Submit one: sangam submit FILE\n");
  EXPECT_THAT(FormatCluster(v1::Cluster()), HasSubstr("No daemons. Start some:"));
}

TEST(JobTablesTest, OneJobInFull) {
  const auto job = Parse<v1::Job>(R"pb(
    id: 12
    spec {
      name: "mlp"
      seed: 1
      model {
        block {
          layer { flatten {} }
          layer { relu {} }
        }
        block { layer { relu {} } }
      }
      optimizer {
        learning_rate: 0.05
        momentum { momentum: 0.9 }
      }
      batch { size: 256 micro_batches: 8 shares: 4 }
      epochs: 3
    }
    state: FAILED
    reason: "worker 'w\n1' is lost"
    history {
      state: QUEUED
      time { seconds: 1700000000 }
    }
    history {
      state: FAILED
      time { seconds: 1700000040 }
      reason: "worker 'w\n1' is lost"
    }
    progress {
      steps_done: 437
      steps_total: 705
      steps_per_epoch: 235
      loss: 0.3567
      samples: 111872
      samples_per_second: 24103.2
    }
    evaluation { step: 235 accuracy: 0.83 loss: 0.47 correct: 8300 samples: 10000 }
    layout { parameter_count: 101770 }
    worker: "w0"
    worker: "w1"
    server: "s0"
    server_address: "127.0.0.1:7070"
    generation: 1
  )pb");
  EXPECT_EQ(FormatJob(job, kNow, absl::UTCTimeZone()),
            "job         12\n"
            "name        mlp\n"
            "state       FAILED, for 1m00s\n"
            "reason      worker 'w; 1' is lost\n"
            "progress    61%, step 437/705, 235 per epoch\n"
            "loss        0.3567\n"
            "speed       24103 samples/s, 111,872 samples so far\n"
            "model       3 layers in 2 blocks, 101,770 parameters (397.5 KiB)\n"
            "optimizer   momentum, learning rate 0.05\n"
            "batch       256 samples in 8 micro-batches, 4 shares\n"
            "duration    3 epochs\n"
            "seed        1\n"
            "workers     w0, w1\n"
            "servers     s0 (127.0.0.1:7070)\n"
            "generation  1\n"
            "weights     not held\n"
            "\n"
            "history\n"
            "  TIME                 STATE   REASON\n"
            "  2023-11-14 22:13:20  QUEUED\n"
            "  2023-11-14 22:14:00  FAILED  worker 'w; 1' is lost\n"
            "\n"
            "evaluations\n"
            "  STEP  ACCURACY    LOSS     CORRECT\n"
            "   235    0.8300  0.4700  8300/10000\n");
}

TEST(JobTablesTest, HowAModelIsSpread) {
  auto job = Parse<v1::Job>(R"pb(
    spec {
      strategy: AUTO
      loss { token_cross_entropy {} }
    }
    progress { steps_done: 1 steps_total: 2 loss: 2.5 }
    layout { terms_per_sample: 128 }
    evaluation { step: 1 accuracy: 0.5 loss: 2.25 correct: 640 samples: 10 }
  )pb");
  // Not planned yet.
  EXPECT_THAT(FormatJob(job, kNow, absl::UTCTimeZone()), HasSubstr("\nstrategy    AUTO\n"));
  job.set_strategy(v1::DATA_PARALLEL);
  job.mutable_utilization()->set_bubble(0.5);
  const std::string parallel = FormatJob(job, kNow, absl::UTCTimeZone());
  EXPECT_THAT(parallel, HasSubstr("\nstrategy    DATA_PARALLEL\n"));
  EXPECT_THAT(parallel, Not(HasSubstr("bubble")));
  EXPECT_THAT(parallel, HasSubstr("\nloss        2.5000 nats/token\n"));
  // Hits are counted in tokens.
  EXPECT_THAT(parallel, HasSubstr("  640/1280\n"));
  v1::Job regression = job;
  regression.mutable_spec()->mutable_loss()->mutable_mean_squared_error();
  EXPECT_THAT(FormatJob(regression, kNow, absl::UTCTimeZone()),
              AllOf(HasSubstr("  -  2.2500"), Not(HasSubstr("640"))));

  job.MergeFrom(Parse<v1::Job>(R"pb(
    strategy: MODEL_PARALLEL
    schedule: ZERO_BUBBLE
    plan_reason: "DATA_PARALLEL does not fit: worker w0 needs 3.0 GiB, but its limit is 2.0 GiB, and HYBRID\nneeds 4 workers"
    utilization { step: 41 span_seconds: 0.0851 bubble: 0.123 }
    stage { first_block: "a" last_block: "b" block_count: 2 parameter_count: 12 worker: "w0" }
    stage { first_block: "c" last_block: "c" block_count: 1 parameter_count: 3 worker: "w1" }
  )pb"));
  EXPECT_THAT(
      FormatJob(job, kNow, absl::UTCTimeZone()),
      HasSubstr("strategy    MODEL_PARALLEL, schedule ZERO_BUBBLE\n"
                "why         DATA_PARALLEL does not fit: worker w0 needs 3.0 GiB, but its limit is "
                "2.0 GiB, and\n"
                "            HYBRID; needs 4 workers\n"
                "bubble      12.3% of step 41, which took 85.1 ms\n"
                "\n"
                "stages\n"
                "  STAGE  BLOCKS    PARAMETERS  WORKERS\n"
                "      0  a..b (2)          12  w0\n"
                "      1  c                  3  w1\n"));
}

TEST(JobTablesTest, AJobOfWhichLittleIsKnown) {
  const std::string text = FormatJob(v1::Job(), kNow, absl::UTCTimeZone());
  EXPECT_THAT(text, HasSubstr("state       JOB_STATE_UNSPECIFIED, for -\n"));
}

TEST(JobTablesTest, Cluster) {
  const auto cluster = Parse<v1::Cluster>(R"pb(
    daemon {
      role: "server"
      name: "s0"
      alive: true
      silent_ms: 300
      address: "10.0.0.1:7070"
      threads: 8
      memory_bytes: 17179869184
      job: 3
      job: 4
    }
    daemon {
      role: "worker"
      name: "w0"
      silent_ms: 61000
      threads: 2
      backend: "cpu"
      flops_per_second: 1.234e10
    }
  )pb");
  EXPECT_EQ(
      FormatCluster(cluster),
      "ROLE    NAME  STATE  SILENT  ADDRESS        THREADS  GFLOP/S    MEMORY  BACKEND  JOBS\n"
      "server  s0    alive    0.3s  10.0.0.1:7070        8        -  16.0 GiB  -        3,4\n"
      "worker  w0    lost    1m01s  -                    2     12.3         -  cpu      -\n");
}

TEST(JobTablesTest, DevicesOfACluster) {
  const auto cluster = Parse<v1::Cluster>(R"pb(
    daemon {
      role: "worker"
      name: "w0"
      backend: "cpu"
      device {}
    }
    daemon {
      role: "worker"
      name: "w1"
      backend: "cuda"
      device {
        name: "NVIDIA H200"
        memory_bytes: 150000000000
        compute_capability: "9.0"
        driver: "13.1"
        runtime: "13.0"
      }
    }
    daemon {
      role: "worker"
      name: "w2"
      backend: "cuda"
      device { name: "a\nb" }
    }
  )pb");
  const std::string text = FormatCluster(cluster);
  EXPECT_EQ(text.substr(text.find("\n\n")),
            "\n\nWORKER  DEVICE          MEMORY  COMPUTE  DRIVER  RUNTIME\n"
            "w1      NVIDIA H200  139.7 GiB  9.0      13.1    13.0\n"
            "w2      a; b                 -  -        -       -\n");
}

TEST(JobTablesTest, AWorkerWithoutItsDeviceIsShownWithTheReason) {
  const v1::Cluster cluster = Parse<v1::Cluster>(R"pb(
    daemon { role: "worker" name: "w0" alive: true fault: "cuda: Gemm:\nillegal access" }
    daemon { role: "worker" name: "w1" fault: "of old" }
  )pb");
  const std::string text = FormatCluster(cluster);
  EXPECT_THAT(text, HasSubstr("worker  w0    broken"));
  EXPECT_THAT(text, HasSubstr("worker  w1    lost"));
  EXPECT_THAT(text, HasSubstr("\nworker w0 gets no jobs until it is started again: cuda: Gemm:; "
                              "illegal access\n"));
  EXPECT_EQ(text.find("of old"), std::string::npos);
}

TEST(JobTablesTest, Titles) {
  v1::Job job;
  job.set_id(7);
  EXPECT_EQ(JobTitle(job), "7");
  job.mutable_spec()->set_name("a\nb");
  EXPECT_EQ(JobTitle(job), "a; b");
}

}  // namespace
}  // namespace sangam
