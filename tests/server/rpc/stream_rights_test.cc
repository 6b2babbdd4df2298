// Who may ask for samples and who may vote, with real handshakes: the worker or server of the plan,
// under its own name, and for its own job.
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/shard_table.h"
#include "tests/server/core/naive_merge.h"
#include "tests/server/runtime/shard_fixture.h"
#include "tests/testing/data_server.h"
#include "tests/testing/feed_job.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/test_identities.h"
#include "tests/testing/wire_client.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

struct Heard {
  absl::Status end;
  int answers = 0;
};

// Says all of it, half-closes, and hears what comes until the stream ends.
template <typename Stream, typename Message, typename Answer>
Heard Converse(Stream* stream, const std::vector<Message>& messages, Answer* answer) {
  Heard heard;
  for (const Message& message : messages) stream->Write(message);
  stream->WritesDone();
  while (stream->Read(answer)) ++heard.answers;
  heard.end = FromGrpcStatus(stream->Finish());
  return heard;
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
}

class FeedRightsTest : public ::testing::Test {
 protected:
  FeedRightsTest() {
    job_.ranks = 2;
    jobs_.Set(testing::MakeServedJob(job_, testing::MakeFeedData(job_)));
    DataService::Options options;
    options.piece_elements = 1000;
    server_ = std::make_unique<testing::DataServer>(options, jobs_.finder());
  }

  // What worker 0, which has the first block, hears under such a certificate.
  Heard Feed(const std::string& role, const std::string& name, uint64_t request_of) {
    const auto channel = CreateDataChannel(server_->address(), kPageElements, kDataServers,
                                           identities_.As(role, name));
    const auto stub = v1::DataService::NewStub(channel);
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::TensorFrame request;
    request.mutable_header()->set_kind(v1::FRAME_KIND_DATA_REQUEST);
    request.mutable_header()->set_job(request_of);
    request.mutable_header()->set_generation(job_.generation);
    const std::vector<v1::TensorFrame> frames = {
        HelloFrame(testing::MakeFeedAssignment(job_)->plan()), request};
    v1::TensorFrame answer;
    return Converse(stub->Feed(&context).get(), frames, &answer);
  }

  TestIdentities identities_{"coordinator"};
  testing::FeedJob job_;
  testing::ServedJobs jobs_;
  std::unique_ptr<testing::DataServer> server_;
};

TEST_F(FeedRightsTest, SamplesAreForTheWorkerOfTheCertificate) {
  for (const char* name : {"w0", ""}) {
    const Heard own = Feed("worker", name, job_.job);
    EXPECT_TRUE(own.end.ok()) << own.end;
    EXPECT_EQ(own.answers, 1);
  }
  for (const char* name : {"w1", "w7"}) {
    const Heard other = Feed("worker", name, job_.job);
    EXPECT_EQ(other.end.code(), Code::kPermissionDenied) << other.end;
    EXPECT_THAT(std::string(other.end.message()), HasSubstr("found the name \"w0\""));
    EXPECT_EQ(other.answers, 0);
  }
  for (const char* role : {"client", "viewer", "server", "coordinator", "admin"}) {
    const Heard refused = Feed(role, "", job_.job);
    EXPECT_EQ(refused.end.code(), Code::kPermissionDenied) << role << refused.end;
    EXPECT_THAT(std::string(refused.end.message()), HasSubstr("DataService/Feed"));
    EXPECT_EQ(refused.answers, 0);
  }
}

TEST_F(FeedRightsTest, RequestsOfAnotherJobEndTheStreamWithoutAnAnswer) {
  testing::FeedJob other = job_;
  other.job = job_.job + 1;
  jobs_.Set(testing::MakeServedJob(other, testing::MakeFeedData(other)));
  const Heard heard = Feed("worker", "w0", other.job);
  EXPECT_EQ(heard.end.code(), Code::kPermissionDenied) << heard.end;
  EXPECT_EQ(heard.answers, 0);
}

// This process is s0, which counts the votes of itself and s1.
class VoteRightsTest : public ::testing::Test {
 protected:
  VoteRightsTest() {
    job_ = SmallJob(5, 2, {"s0", "s1"});
    job_.mutable_spec()->mutable_optimizer()->mutable_clipping()->set_max_norm(0.5f);
    job_.mutable_plan()->mutable_server(1)->set_incarnation(1001);
    table_.Reconcile({job_});
    job_.set_phase(v1::Assignment::RUN);
    table_.Reconcile({job_});
    server_ = ParameterServer::Start(
        ParameterService::Options(), [this](uint64_t id) { return table_.Find(id); }, 0,
        [this](uint64_t id) { return table_.FindCounter(id); });
    // The gradients of its own pages: what is missing are the votes of s1.
    int number = 0;
    for (const PageName& page : SmallJobPages()) {
      v1::PageVote* vote = number++ % 2 == 1 ? votes_.add_page() : nullptr;
      if (vote != nullptr) {
        vote->set_segment(page.segment);
        vote->set_page(static_cast<uint32_t>(page.first_element / 10));
        vote->add_value(1);
        continue;
      }
      v1::FrameHeader header = GradientHeader(job_.plan(), page, 0, {0, 2}, 1);
      header.set_source(1);
      const std::vector<float> values(page.element_count, 1.0f);
      const auto shard = *table_.Find(5);
      EXPECT_TRUE(shard->AddGradient(header, OnePiece(values)).ok());
    }
    votes_.set_job(5);
    votes_.set_generation(1);
    votes_.set_server(1);
  }

  // What s1 hears that says who it is, and votes as it should, under such a certificate.
  Heard Vote(const std::string& role, const std::string& name) {
    const auto channel = CreateDataChannel(server_->address(), kPageElements, kDataServers,
                                           identities_.As(role, name));
    const auto stub = v1::ParameterService::NewStub(channel);
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::StepVotes hello;
    hello.set_job(5);
    hello.set_generation(1);
    hello.set_server(1);
    hello.set_protocol_version(kProtocolVersion);
    hello.set_schema_hash(job_.plan().schema_hash());
    hello.set_incarnation(1001);
    v1::StepDecision decision;
    return Converse(stub->Vote(&context).get(), std::vector<v1::StepVotes>{hello, votes_},
                    &decision);
  }

  // The step that the pages of s0 have come to, given some time.
  uint64_t AwaitStep(uint64_t wanted, absl::Duration patience) {
    const absl::Time until = absl::Now() + patience;
    for (;;) {
      uint64_t least = wanted;
      for (const PageWeights& page : (*table_.Find(5))->ReadWeights()) {
        least = std::min<uint64_t>(least, page.header.step());
      }
      if (least >= wanted || absl::Now() >= until) return least;
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  TestIdentities identities_{"coordinator"};
  v1::Assignment job_;
  ShardTable table_{"s0"};
  v1::StepVotes votes_;
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(VoteRightsTest, VotesAreOfTheServerOfTheCertificate) {
  for (const char* name : {"s0", "s2"}) {
    const Heard other = Vote("server", name);
    EXPECT_EQ(other.end.code(), Code::kPermissionDenied) << other.end;
    EXPECT_THAT(std::string(other.end.message()), HasSubstr("found the name \"s1\""));
  }
  // A worker of the same name, and others.
  for (const char* role : {"worker", "client", "viewer", "admin"}) {
    const Heard refused = Vote(role, "s1");
    EXPECT_EQ(refused.end.code(), Code::kPermissionDenied) << role << refused.end;
    EXPECT_THAT(std::string(refused.end.message()), HasSubstr("ParameterService/Vote"));
  }
  EXPECT_EQ(AwaitStep(1, absl::Milliseconds(100)), 0u) << "no vote of theirs counts";
  const Heard own = Vote("server", "s1");
  EXPECT_TRUE(own.end.ok()) << own.end;
  EXPECT_EQ(AwaitStep(1, absl::Seconds(20)), 1u);
}

TEST_F(VoteRightsTest, ACoordinatorIsAServerToo) {
  EXPECT_TRUE(Vote("coordinator", "s1").end.ok());
  EXPECT_EQ(AwaitStep(1, absl::Seconds(20)), 1u);
}

TEST_F(VoteRightsTest, VotesOfAnotherJobEndTheStreamAndCountNothing) {
  votes_.set_job(6);
  const Heard foreign = Vote("server", "s1");
  EXPECT_EQ(foreign.end.code(), Code::kPermissionDenied) << foreign.end;
  EXPECT_EQ(AwaitStep(1, absl::Milliseconds(100)), 0u);
  votes_.set_job(5);
  EXPECT_TRUE(Vote("server", "s1").end.ok());
  EXPECT_EQ(AwaitStep(1, absl::Seconds(20)), 1u);
}

}  // namespace
}  // namespace sangam
