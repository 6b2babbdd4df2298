#include "server/runtime/job_shard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/errors/error_details.h"
#include "common/metrics/counters.h"
#include "common/model/initializer.h"
#include "common/model/learning_rate.h"
#include "common/plan/page_map.h"
#include "common/plan/saturating.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/cluster_service.pb.h"
#include "proto/model.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/core/snapshot_shelf.h"
#include "server/core/step_rules.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/shared_page.h"
#include "server/runtime/update_pool.h"
#include "server/runtime/vote_exchange.h"
#include "server/runtime/vote_link.h"

namespace sangam {

namespace {

// Of the blocks that compute with a segment, in the order of their uses.
std::vector<std::string> BlockNames(const v1::ModelLayout& layout, uint32_t segment) {
  const v1::SegmentLayout& of = layout.segment(static_cast<int>(segment));
  std::vector<uint32_t> uses(of.use().begin(), of.use().end());
  if (uses.empty()) uses.push_back(of.block());
  std::vector<std::string> names;
  for (const uint32_t block : uses) {
    if (block >= static_cast<uint32_t>(layout.block_size())) return {};
    names.push_back(layout.block(static_cast<int>(block)).name());
  }
  return names;
}

WorkerNames NamesOfWorkers(const v1::Plan& plan) {
  std::vector<std::string> names;
  for (const v1::WorkerPlan& worker : plan.worker()) names.push_back(worker.name());
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

static_assert(kMaxStateArrays == Optimizer::kMaxState);

// More than any machine has, and sums of some stay within 63 bits.
constexpr uint64_t kMostPlannedBytes = uint64_t{1} << 50;

// The payload, whose bytes go back to the budget with its memory.
SlicePayload Counted(const SlicePayload& payload, MemoryLease lease) {
  struct Owner {
    std::shared_ptr<const void> memory;
    MemoryLease lease;
  };
  std::vector<ByteSpan> pieces = payload.pieces();
  return SlicePayload(std::move(pieces),
                      std::make_shared<const Owner>(Owner{payload.owner(), std::move(lease)}));
}

// A page of a snapshot: its weights, then each array of the optimizer's state.
PageWeights StateFrame(uint64_t job, const PageLayout& layout, PageState state) {
  PageWeights frame;
  frame.header.set_job(job);
  frame.header.set_step(state.step);
  frame.header.set_segment(layout.segment);
  frame.header.set_first_element(layout.first_element);
  frame.header.set_element_count(layout.element_count);
  frame.header.set_encoding(v1::ENCODING_FP32);
  frame.header.set_kind(v1::FRAME_KIND_STATE);
  std::vector<ByteSpan> pieces;
  const auto add = [&pieces](const FloatBuffer& buffer) {
    if (buffer.size() == 0) return;
    pieces.push_back(
        {reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size() * sizeof(float)});
  };
  const auto owner = std::make_shared<const PageState>(std::move(state));
  add(owner->weights);
  for (const FloatBuffer& array : owner->state) add(array);
  frame.elements = SlicePayload(std::move(pieces), owner);
  return frame;
}

}  // namespace

JobShard::JobShard(const v1::Assignment& assignment, ShardLayout layout, Environment environment)
    : job_(assignment.plan().job()),
      owner_(assignment.owner()),
      layout_(std::move(layout)),
      environment_(std::move(environment)),
      memory_bytes_(layout_.memory_bytes),
      snapshots_(layout_.pages.size()) {}

absl::StatusOr<std::shared_ptr<JobShard>> JobShard::Create(const v1::Assignment& assignment,
                                                           ShardLayout layout,
                                                           Environment environment) {
  const v1::Plan& plan = assignment.plan();
  std::shared_ptr<JobShard> shard(
      new JobShard(assignment, std::move(layout), std::move(environment)));
  if (MemoryBudget* budget = shard->environment_.budget; budget != nullptr) {
    // Twice: gRPC slows its peers down when its memory is nearly used up, and after a stream was
    // lost everything on it comes again before it is seen to be a copy.
    const uint64_t bytes = SaturatingProduct(StagingBytes(plan, shard->layout_), 2);
    shard->staging_ = budget->Plan(std::min(bytes, kMostPlannedBytes));
  }
  RETURN_IF_ERROR(shard->AllocatePages(assignment), "job %d", plan.job());
  if (const StepRules rules = RulesOf(assignment.spec()); rules.votes) {
    shard->votes_ =
        std::make_shared<VoteExchange>(plan, shard->layout_.map, shard->layout_.server, rules,
                                       shard->environment_.open_link, shard->weak_from_this());
  }
  MutexLock lock(&shard->mutex_);
  shard->peers_ = PeersOf(assignment.plan());
  return shard;
}

absl::Status JobShard::AllocatePages(const v1::Assignment& assignment) {
  const v1::Plan& plan = assignment.plan();
  const StepRules rules = RulesOf(assignment.spec());
  const WorkerNames workers = NamesOfWorkers(plan);
  pages_.resize(layout_.map.num_segments());
  for (uint32_t s = 0; s < layout_.map.num_segments(); ++s) {
    pages_[s].resize(layout_.map.pages(s).size());
  }
  ASSIGN_OR_RETURN(std::vector<PageState> states, FirstStates(assignment));
  for (size_t p = 0; p < layout_.pages.size(); ++p) {
    const PageLayout& layout = layout_.pages[p];
    const uint64_t index = layout.first_element / layout_.map.page_elements();
    ParameterPage::Options options;
    options.segment = layout.segment;
    options.page = static_cast<uint32_t>(index);
    options.first_element = layout.first_element;
    options.element_count = layout.element_count;
    options.generation = plan.generation();
    options.shares = layout_.shares;
    options.uses = layout.uses;
    options.rules = rules;
    options.blocks = BlockNames(plan.layout(), layout.segment);
    options.workers = workers;
    options.ranges = layout.ranges;
    const bool resumes = assignment.first_step() > 0;
    ASSIGN_OR_RETURN(ParameterPage page,
                     resumes ? ParameterPage::Restore(std::move(options), layout_.optimizer,
                                                      std::move(states[p]))
                             : ParameterPage::Create(std::move(options), layout_.optimizer,
                                                     std::move(states[p].weights)));
    pages_[layout.segment][index] = std::make_unique<SharedPage>(job_, std::move(page));
    held_.push_back(pages_[layout.segment][index].get());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PageState>> JobShard::FirstStates(
    const v1::Assignment& assignment) const {
  if (assignment.first_step() > 0) return RestoredStates(assignment);
  std::vector<PageState> states(layout_.pages.size());
  for (size_t p = 0; p < states.size(); ++p) {
    const PageLayout& layout = layout_.pages[p];
    ASSIGN_OR_RETURN(states[p].weights, FloatBuffer::Allocate(layout.element_count));
    FillInitialWeights(assignment.plan().layout().segment(static_cast<int>(layout.segment)),
                       assignment.spec().seed(), layout.first_element, layout.element_count,
                       states[p].weights.data());
  }
  return states;
}

absl::StatusOr<std::vector<PageState>> JobShard::RestoredStates(
    const v1::Assignment& assignment) const {
  if (environment_.read_checkpoint == nullptr) {
    return absl::FailedPreconditionError("this server cannot read checkpoints");
  }
  const int arrays = layout_.optimizer.state_count();
  std::vector<PageState> states(layout_.pages.size());
  std::map<std::pair<uint32_t, uint64_t>, size_t> missing;  // pages by segment and first element
  for (size_t p = 0; p < states.size(); ++p) {
    const PageLayout& layout = layout_.pages[p];
    states[p].step = assignment.first_step();
    states[p].updates = assignment.first_updates();
    ASSIGN_OR_RETURN(states[p].weights, FloatBuffer::Allocate(layout.element_count));
    for (int i = 0; i < arrays; ++i) {
      ASSIGN_OR_RETURN(states[p].state[i], FloatBuffer::Allocate(layout.element_count));
    }
    missing[{layout.segment, layout.first_element}] = p;
  }
  if (states.empty()) return states;
  RETURN_IF_ERROR(environment_.read_checkpoint(
      assignment, [&](const v1::FrameHeader& header, absl::string_view payload) -> absl::Status {
        const auto found = missing.find({header.segment(), header.first_element()});
        if (found == missing.end()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "checkpoint: found segment ", header.segment(), " from ", header.first_element(),
              ", which is no page of this server or came "
              "before"));
        }
        PageState& state = states[found->second];
        const size_t bytes = state.weights.size() * sizeof(float);
        if (header.step() != state.step || header.kind() != v1::FRAME_KIND_STATE ||
            payload.size() != bytes * (1 + arrays)) {
          return absl::InvalidArgumentError(
              absl::StrCat("checkpoint: found ", payload.size(), " bytes of step ", header.step(),
                           ", expected ", bytes * (1 + arrays), " of step ", state.step));
        }
        std::memcpy(state.weights.data(), payload.data(), bytes);
        for (int i = 0; i < arrays; ++i) {
          std::memcpy(state.state[i].data(), payload.data() + (1 + i) * bytes, bytes);
        }
        missing.erase(found);
        return absl::OkStatus();
      }));
  if (!missing.empty()) {
    return absl::DataLossError(absl::StrCat("checkpoint: ", missing.size(), " of ", states.size(),
                                            " pages have not come"));
  }
  return states;
}

void JobShard::WantSnapshots(uint64_t generation, const std::vector<uint64_t>& steps) {
  std::vector<uint64_t> open;
  {
    MutexLock lock(&mutex_);
    open = snapshots_.Want(steps);
  }
  for (size_t p = 0; p < held_.size(); ++p) {
    // The page outlives no shard; the shard must not outlive itself by its page.
    held_[p]->WantSnapshots(open, [this, generation, p](PageState state) {
      OnSnapshot(generation, p, std::move(state));
    });
  }
}

void JobShard::OnSnapshot(uint64_t generation, size_t page, PageState state) {
  v1::JobReport report;
  report.mutable_snapshot()->set_step(state.step);
  report.mutable_snapshot()->set_updates(state.updates);
  {
    MutexLock lock(&mutex_);
    if (!snapshots_.Add(page, std::move(state))) return;
  }
  Report(generation, std::move(report));
}

absl::StatusOr<std::vector<PageWeights>> JobShard::ReadState(uint64_t step) {
  std::vector<PageState> states;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(states, snapshots_.Get(step), "job %d", job_);
  }
  std::vector<PageWeights> frames;
  frames.reserve(states.size());
  for (size_t p = 0; p < states.size(); ++p) {
    frames.push_back(StateFrame(job_, layout_.pages[p], std::move(states[p])));
  }
  return frames;
}

void JobShard::ReleaseState(uint64_t step) {
  MutexLock lock(&mutex_);
  snapshots_.Remove(step);
}

JobShard::Peers JobShard::PeersOf(const v1::Plan& plan) {
  Peers peers;
  peers.generation = plan.generation();
  peers.schema_hash = plan.schema_hash();
  for (const v1::WorkerPlan& worker : plan.worker()) {
    peers.worker.push_back({worker.name(), worker.incarnation()});
  }
  return peers;
}

template <typename Visit>
void JobShard::ForEachPage(const Visit& visit) const {
  for (SharedPage* page : held_) visit(*page);
}

absl::Status JobShard::CheckJob(const v1::FrameHeader& header) const {
  if (dropped_) {
    return absl::NotFoundError(
        absl::StrCat("job ", job_, ": this server does not hold it any more"));
  }
  if (header.job() != job_) {
    return absl::InvalidArgumentError(
        absl::StrCat("job: found ", header.job(), " on a stream of job ", job_));
  }
  return absl::OkStatus();
}

absl::Status JobShard::CheckHello(const v1::FrameHeader& header, const v1::StreamHello& hello) {
  RETURN_IF_ERROR(CheckJob(header));
  if (hello.protocol_version() != kProtocolVersion) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "protocol version: worker '", hello.worker(), "' has ",
                          hello.protocol_version(), ", this server has ", kProtocolVersion)),
                      "VERSION_SKEW");
  }
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(header.generation(), peers_.generation));
  if (header.source() >= peers_.worker.size()) {
    return absl::InvalidArgumentError(absl::StrCat("source: found ", header.source(),
                                                   ", expected less than ", peers_.worker.size()));
  }
  const Peers::Worker& expected = peers_.worker[header.source()];
  if (hello.worker() != expected.name) {
    return absl::InvalidArgumentError(absl::StrCat("worker: found '", hello.worker(),
                                                   "' as source ", header.source(),
                                                   ", the plan has '", expected.name, "'"));
  }
  if (hello.incarnation() != expected.incarnation) {
    return WithReason(absl::AbortedError(absl::StrCat("incarnation of worker '", hello.worker(),
                                                      "': found ", hello.incarnation(),
                                                      ", the plan has ", expected.incarnation)),
                      "EPOCH_FENCED");
  }
  if (hello.schema_hash() != peers_.schema_hash) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "schema of job ", job_, ": worker '", hello.worker(), "' has ",
                          hello.schema_hash(), ", this server has ", peers_.schema_hash)),
                      "SCHEMA_MISMATCH");
  }
  return absl::OkStatus();
}

absl::Status JobShard::Subscribe(const v1::FrameHeader& header,
                                 const std::shared_ptr<WeightsSink>& sink) {
  RETURN_IF_ERROR(CheckJob(header));
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(header.generation(), peers_.generation));
  }
  ASSIGN_OR_RETURN(const uint32_t first,
                   layout_.map.PageAt(header.segment(), header.first_element()));
  const std::vector<PageRange>& ranges = layout_.map.pages(header.segment());
  uint64_t covered = 0;
  uint32_t last = first;
  while (last < ranges.size() && covered < header.element_count()) {
    covered += ranges[last++].element_count;
  }
  if (covered != header.element_count() || covered == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element_count of segment ", header.segment(), " from ", header.first_element(), ": found ",
        header.element_count(), ", expected whole pages, such as ", covered));
  }
  for (uint32_t p = first; p < last; ++p) {
    SharedPage* page = pages_[header.segment()][p].get();
    if (page == nullptr) continue;
    RETURN_IF_ERROR(page->Subscribe(header.generation(), header.step(), sink));
  }
  return absl::OkStatus();
}

void JobShard::Unsubscribe(const WeightsSink* sink) {
  ForEachPage([sink](SharedPage& page) { page.Unsubscribe(sink); });
}

absl::StatusOr<SharedPage*> JobShard::FindPage(const v1::FrameHeader& header) const {
  ASSIGN_OR_RETURN(const uint32_t index,
                   layout_.map.PageAt(header.segment(), header.first_element()));
  const PageRange& range = layout_.map.pages(header.segment())[index];
  if (header.element_count() != range.element_count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element_count of segment ", header.segment(), " from ", header.first_element(), ": found ",
        header.element_count(), ", expected the page's ", range.element_count));
  }
  SharedPage* page = pages_[header.segment()][index].get();
  if (page == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment ", header.segment(), ", page from ", header.first_element(),
                     ": lies on server ", range.server, " of the plan, this is ", layout_.server));
  }
  return page;
}

absl::Status JobShard::AddGradient(const v1::FrameHeader& header, const SlicePayload& elements) {
  RETURN_IF_ERROR(CheckJob(header));
  if (header.encoding() != v1::ENCODING_FP32) {
    return absl::InvalidArgumentError(absl::StrCat("encoding: found ", header.encoding(),
                                                   ", expected ", v1::ENCODING_FP32, " (FP32)"));
  }
  ASSIGN_OR_RETURN(SharedPage * page, FindPage(header));
  GradientKey key;
  key.generation = header.generation();
  key.step = header.step();
  key.span = {header.span_begin(), header.span_end()};
  key.samples = header.samples();
  key.use = header.use();
  key.source = header.source();
  if (staging_ == nullptr) {
    ASSIGN_OR_RETURN(const SharedPage::Vote vote, page->Add(key, elements));
    HandOn(vote);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(MemoryLease lease, staging_->Take(elements.size()), "job %d", job_);
  ASSIGN_OR_RETURN(const SharedPage::Vote vote,
                   page->Add(key, Counted(elements, std::move(lease))));
  HandOn(vote);
  return absl::OkStatus();
}

void JobShard::HandOn(const SharedPage::Vote& vote) const {
  if (vote.has_value() && votes_ != nullptr) votes_->Add(*vote);
}

void JobShard::ChangePages(std::function<absl::StatusOr<SharedPage::Vote>(SharedPage&)> change) {
  environment_.pool->ForEach(
      held_.size(), [shard = shared_from_this(), change = std::move(change)](size_t index) {
        SharedPage& page = *shard->held_[index];
        const absl::StatusOr<SharedPage::Vote> vote = change(page);
        if (vote.ok()) {
          shard->HandOn(*vote);
        } else {
          shard->OnVotesFailed(page.generation(), vote.status());
        }
      });
}

absl::Status JobShard::Run(const v1::Assignment& assignment) {
  ASSIGN_OR_RETURN(const LearningRate rate,
                   LearningRate::Create(assignment.spec().optimizer(), assignment.steps_total()),
                   "job %d", job_);
  if (votes_ != nullptr) votes_->Run();
  // On this thread: few gradients can have been complete before.
  for (SharedPage* page : held_) {
    ASSIGN_OR_RETURN(const SharedPage::Vote vote, page->Begin(rate), "job %d", job_);
    HandOn(vote);
  }
  return absl::OkStatus();
}

std::shared_ptr<VoteCounter> JobShard::counter() const {
  return votes_ != nullptr && votes_->counts() ? votes_ : nullptr;
}

std::vector<ParameterPage::Vote> JobShard::Votes() const {
  std::vector<ParameterPage::Vote> all;
  ForEachPage([&all](const SharedPage& page) {
    std::vector<ParameterPage::Vote> votes = page.Votes();
    all.insert(all.end(), std::make_move_iterator(votes.begin()),
               std::make_move_iterator(votes.end()));
  });
  return all;
}

void JobShard::OnDecision(std::shared_ptr<const v1::StepDecision> decision) {
  ChangePages(
      [decision = std::move(decision)](SharedPage& page) { return page.Decide(*decision); });
}

void JobShard::OnSkippedStep(uint64_t generation, uint64_t step, const std::string& why) {
  Counters::Add(&ProcessCounters().skipped_steps, 1);
  LogWarning("step skipped", "job=%d generation=%d step=%d why=%s", job_, generation, step,
             LogValue(why));
  v1::JobReport report;
  report.mutable_skipped_step()->set_step(step);
  report.mutable_skipped_step()->set_why(why);
  Report(generation, std::move(report));
}

void JobShard::OnVotesFailed(uint64_t generation, const absl::Status& status) {
  LogWarning("job cannot go on", "job=%d generation=%d status=%s", job_, generation,
             LogValue(status.ToString()));
  v1::JobReport report;
  report.mutable_failed()->set_code(static_cast<int32_t>(status.code()));
  report.mutable_failed()->set_message(std::string(status.message()));
  Report(generation, std::move(report));
}

void JobShard::Report(uint64_t generation, v1::JobReport report) const {
  if (environment_.report == nullptr) return;
  v1::ReportRequest request;
  request.set_job(job_);
  request.set_generation(generation);
  *request.add_report() = std::move(report);
  environment_.report(std::move(request));
}

std::vector<PageWeights> JobShard::ReadWeights() {
  std::vector<PageWeights> all;
  all.reserve(layout_.pages.size());
  ForEachPage([&all](const SharedPage& page) { all.push_back(page.Read()); });
  return all;
}

void JobShard::Reduce() {
  if (votes_ != nullptr) votes_->End();
  WantSnapshots(0, {});
  ForEachPage([](SharedPage& page) { page.Reduce(); });
  if (staging_ != nullptr) staging_->End();
  uint64_t elements = 0;
  for (const PageLayout& page : layout_.pages) elements += page.element_count;
  memory_bytes_ = elements * sizeof(float);
}

void JobShard::Drop() {
  dropped_ = true;
  if (votes_ != nullptr) votes_->End();
  // Streams and shard hold one another; the shard lets go first.
  ForEachPage([](SharedPage& page) { page.UnsubscribeAll(); });
  WantSnapshots(0, {});
  // What is parked goes before the plan that it counts on: with the plan gRPC's quota shrinks, and
  // one that is exceeded breaks off the streams of other jobs.
  ForEachPage([](SharedPage& page) { page.Reduce(); });
  if (staging_ != nullptr) staging_->End();
}

ParameterPage::Ignored JobShard::ignored() const {
  ParameterPage::Ignored sum;
  ForEachPage([&sum](const SharedPage& page) {
    const ParameterPage::Ignored ignored = page.ignored();
    sum.covered += ignored.covered;
    sum.finished += ignored.finished;
  });
  return sum;
}

}  // namespace sangam
