#include "server/core/job_table.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000) + absl::Milliseconds(250);

JobTable::Submission Submission(const std::string& name, const std::string& request_id = "",
                                uint64_t seed = 1) {
  JobTable::Submission submission;
  submission.spec.set_name(name);
  submission.spec.set_seed(seed);
  submission.layout.set_parameter_count(7);
  submission.request_id = request_id;
  return submission;
}

uint64_t Submitted(JobTable* table, const std::string& name = "job",
                   const std::string& request_id = "") {
  auto id = table->Submit(Submission(name, request_id), kNow);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or(0);
}

void End(JobTable* table, uint64_t id) {
  EXPECT_TRUE(table->ChangeState(id, v1::CANCELLED, "no longer wanted", kNow).ok());
}

bool IsKnown(const JobTable& table, const std::string& request_id) {
  JobTable::Submission submission = Submission("job", request_id);
  const auto found = table.FindRequest(submission);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() && found->has_value();
}

TEST(JobTableTest, QueuesWithIdHistoryAndEvent) {
  JobTable table({});
  EXPECT_EQ(Submitted(&table, "first"), 1u);
  EXPECT_EQ(Submitted(&table, "second"), 2u);
  const v1::Job& job = *table.Get(1);
  EXPECT_EQ(job.state(), v1::QUEUED);
  EXPECT_EQ(job.layout().parameter_count(), 7u);
  ASSERT_EQ(job.history_size(), 1);
  EXPECT_EQ(job.history(0).time().seconds(), 1'700'000'000);
  EXPECT_EQ(job.history(0).time().nanos(), 250'000'000);
  const auto events = table.EventsAfter(1, 0, 10);
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->events.size(), 1u);
  EXPECT_EQ(events->events[0].state().state(), v1::QUEUED);
  EXPECT_FALSE(events->complete);
  EXPECT_EQ(table.Queued(), (std::vector<uint64_t>{1, 2}));
}

TEST(JobTableTest, SameRequestIdAndSpecIsTheSameJob) {
  JobTable table({});
  const uint64_t id = Submitted(&table, "job", "r1");
  EXPECT_EQ(Submitted(&table, "job", "r1"), id);
  EXPECT_EQ(table.size(), 1u);
  const auto other = table.Submit(Submission("job", "r1", 2), kNow);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(other.status().message().find("job 1"), absl::string_view::npos) << other.status();
  // Without a request id every submission is another job.
  EXPECT_NE(Submitted(&table), Submitted(&table));
}

// "12" may mean another checkpoint when the request comes again.
TEST(JobTableTest, ARepetitionIsToldByWhatWasAsked) {
  JobTable::Options options;
  options.keep_records = true;
  JobTable table(options);
  const auto resume = [](const std::string& asked, const std::string& resolved) {
    JobTable::Submission submission = Submission("job", "r1");
    submission.spec.set_resume_from(resolved);
    submission.asked_resume_from = asked;
    return submission;
  };
  ASSERT_EQ(*table.Submit(resume("12", "12/40"), kNow), 1u);
  EXPECT_EQ(*table.Submit(resume("12", "12/60"), kNow), 1u);
  EXPECT_EQ(*table.Submit(resume("12", "12"), kNow), 1u);
  EXPECT_EQ(table.Get(1)->spec().resume_from(), "12/40");
  EXPECT_EQ(table.Submit(resume("12/60", "12/60"), kNow).status().code(),
            absl::StatusCode::kAlreadyExists);
  RecordChanges changes;
  table.TakeRecords(&changes);
  SavedRecords records;
  for (const auto& [key, value] : changes) records[key] = *value;
  JobTable next(options);
  ASSERT_TRUE(next.Restore(records, 1).ok());
  EXPECT_EQ(*next.Submit(resume("12", "12/60"), kNow), 1u);
}

TEST(JobTableTest, KnowsWhoIsStillToReadACheckpoint) {
  JobTable table(JobTable::Options{});
  for (const std::string from : {"7/40", "7/60", "71/20", ""}) {
    JobTable::Submission submission = Submission("job");
    submission.spec.set_resume_from(from);
    ASSERT_TRUE(table.Submit(std::move(submission), kNow).ok());
  }
  ASSERT_TRUE(table.ChangeState(2, v1::STARTING, "", kNow).ok());
  EXPECT_EQ(table.ResumersOf(7), (std::map<uint64_t, uint64_t>{{40, 1}, {60, 2}}));
  ASSERT_TRUE(table.ChangeState(2, v1::RUNNING, "", kNow).ok());
  End(&table, 1);
  // It comes back to it when it loses a worker, until it has one of its own.
  EXPECT_EQ(table.ResumersOf(7), (std::map<uint64_t, uint64_t>{{60, 2}}));
  v1::CheckpointSummary own;
  own.set_step(80);
  table.SetCheckpoints(2, {own}, 80, kNow);
  EXPECT_TRUE(table.ResumersOf(7).empty());
}

TEST(JobTableTest, AJobThatStartsAgainForgetsWhatItDoesAgain) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  const auto change = [&table, id](v1::JobState state, const std::string& reason) {
    ASSERT_TRUE(table.ChangeState(id, state, reason, kNow).ok());
  };
  change(v1::STARTING, "");
  change(v1::RUNNING, "");
  const auto train = [&table, id](uint64_t begin, uint64_t end) {
    for (uint64_t s = begin; s < end; ++s) {
      v1::StepMetrics step;
      step.set_step(s);
      step.set_samples(8);
      table.AddStep(id, step, kNow);
    }
  };
  train(0, 7);
  for (const uint64_t s : {2, 4, 6}) {
    v1::Evaluation evaluation;
    evaluation.set_step(s);
    table.AddEvaluation(id, evaluation, kNow);
  }
  table.AddSkippedSteps(id, 3);
  change(v1::PREEMPTED, "worker w-1 lost");
  table.AddLoss(id, "worker w-1 lost");
  change(v1::QUEUED, "");
  EXPECT_EQ(table.LossesOf(id), (std::vector<std::string>{"worker w-1 lost"}));
  EXPECT_EQ(table.Queued(), std::vector<uint64_t>{id});
  table.GoBack(id, 4, 2);
  // It has got on since the last start.
  EXPECT_TRUE(table.LossesOf(id).empty());
  table.AddLoss(id, "worker w-2 lost");
  table.GoBack(id, 4, 2);
  EXPECT_EQ(table.LossesOf(id).size(), 1u);
  change(v1::STARTING, "");
  EXPECT_TRUE(table.StepsOf(id).empty());
  train(4, 6);
  EXPECT_EQ(table.StepsOf(id).size(), 2u);
  const v1::Job& job = *table.Get(id);
  EXPECT_EQ(job.progress().steps_done(), 6u);
  EXPECT_EQ(job.progress().samples(), 9 * 8u);
  EXPECT_EQ(job.skipped_steps(), 2u);
  ASSERT_EQ(job.evaluation_size(), 1);
  EXPECT_EQ(job.evaluation(0).step(), 2u);
}

TEST(JobTableTest, OneOwnerCannotFillTheQueue) {
  JobTable::Options options;
  options.max_queued = 4;
  options.max_queued_of_one = 2;
  JobTable table(options);
  const auto submit = [&table](const std::string& owner, const std::string& request_id) {
    JobTable::Submission submission = Submission("a", request_id);
    submission.owner = owner;
    return table.Submit(std::move(submission), kNow);
  };
  ASSERT_TRUE(submit("ann", "1").ok());
  ASSERT_TRUE(submit("ann", "2").ok());
  const absl::Status third = submit("ann", "3").status();
  EXPECT_TRUE(absl::IsResourceExhausted(third));
  EXPECT_EQ(third.message(), "quota of \"ann\": 2 jobs are queued, the limit is 2; submit later");
  EXPECT_EQ(*submit("ann", "2"), 2u);
  EXPECT_TRUE(table.KnowsRequest("ann", "2"));
  EXPECT_FALSE(table.KnowsRequest("ann", "3"));
  EXPECT_FALSE(table.KnowsRequest("bob", "2"));
  // Users without names are nobody in particular.
  ASSERT_TRUE(submit("", "1").ok());
  ASSERT_TRUE(submit("", "2").ok());
  const absl::Status full = submit("bob", "1").status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(full.message(), "quota: 4 jobs are queued, the limit is 4; submit later");
  End(&table, 1);
  End(&table, 3);
  EXPECT_TRUE(submit("ann", "3").ok());
  EXPECT_TRUE(submit("bob", "1").ok());
}

TEST(JobTableTest, RefusesMoreThanTheQueueHolds) {
  JobTable::Options options;
  options.max_queued = 2;
  JobTable table(options);
  Submitted(&table, "a", "r1");
  const uint64_t second = Submitted(&table);
  EXPECT_EQ(table.Submit(Submission("c"), kNow).status().code(),
            absl::StatusCode::kResourceExhausted);
  // A repeated request is not a new job.
  EXPECT_EQ(Submitted(&table, "a", "r1"), 1u);
  End(&table, second);
  EXPECT_TRUE(table.Submit(Submission("c"), kNow).ok());
}

TEST(JobTableTest, RefusesIllegalChangesAndKeepsTheState) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  const absl::Status status = table.ChangeState(id, v1::SUCCEEDED, "", kNow);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("QUEUED to SUCCEEDED"), absl::string_view::npos) << status;
  EXPECT_EQ(table.Get(id)->state(), v1::QUEUED);
  EXPECT_EQ(table.Get(id)->history_size(), 1);
  EXPECT_EQ(table.ChangeState(99, v1::FAILED, "", kNow).code(), absl::StatusCode::kNotFound);
}

TEST(JobTableTest, FindsByNumberAndNewestByName) {
  JobTable table({});
  Submitted(&table, "mnist");
  const uint64_t second = Submitted(&table, "mnist");
  EXPECT_EQ(table.Find("1").value(), 1u);
  EXPECT_EQ(table.Find("mnist").value(), second);
  EXPECT_EQ(table.Find("3").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(table.Find("other").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(table.Find("").status().code(), absl::StatusCode::kNotFound);
}

TEST(JobTableTest, ListsNewestFirstInPages) {
  JobTable table({});
  for (int i = 1; i <= 5; ++i) Submitted(&table, absl::StrCat("job-", i));
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  for (int pages = 0; pages < 10; ++pages) {
    const v1::ListJobsResponse response = table.List(request);
    for (const v1::Job& job : response.job()) {
      names.push_back(job.spec().name());
      EXPECT_EQ(job.spec().seed(), 0u);
      EXPECT_FALSE(job.has_layout());
      request.set_before_id(job.id());
    }
    if (!response.more()) break;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"job-5", "job-4", "job-3", "job-2", "job-1"}));
}

TEST(JobTableTest, ProgressFollowsStepsAndEventsCarryTheLength) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  table.SetLength(id, 10, 5);
  v1::StepMetrics step;
  step.set_samples(32);
  step.set_loss(2.5);
  step.set_samples_per_second(100);
  table.AddStep(id, step, kNow);
  step.set_step(1);
  step.set_samples(16);
  step.set_loss(2.0);
  table.AddStep(id, step, kNow);
  const v1::Progress& progress = table.Get(id)->progress();
  EXPECT_EQ(progress.steps_done(), 2u);
  EXPECT_EQ(progress.samples(), 48u);
  EXPECT_EQ(progress.loss(), 2.0);
  EXPECT_EQ(progress.steps_total(), 10u);
  const auto events = table.EventsAfter(id, 1, 10);
  ASSERT_EQ(events->events.size(), 2u);
  EXPECT_EQ(events->events[1].step().step(), 1u);
  EXPECT_EQ(events->events[1].steps_total(), 10u);
  EXPECT_EQ(events->events[1].steps_per_epoch(), 5u);
}

TEST(JobTableTest, WaitReasonIsAMessageOnceAndTheReason) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  table.SetWaitReason(id, "waiting for 1 of 2 workers", kNow);
  table.SetWaitReason(id, "waiting for 1 of 2 workers", kNow);
  EXPECT_EQ(table.Get(id)->reason(), "waiting for 1 of 2 workers");
  const auto events = table.EventsAfter(id, 1, 10);
  ASSERT_EQ(events->events.size(), 1u);
  EXPECT_EQ(events->events[0].message(), "waiting for 1 of 2 workers");
}

TEST(JobTableTest, EventsAreCompleteOnlyWithTheLastOneOfAnEndedJob) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  table.AddMessage(id, "hello", kNow);
  End(&table, id);
  EXPECT_FALSE(table.EventsAfter(id, 0, 2)->complete);
  EXPECT_TRUE(table.EventsAfter(id, 0, 3)->complete);
  EXPECT_TRUE(table.EventsAfter(id, 3, 3)->complete);
  EXPECT_EQ(table.EventsAfter(99, 0, 1).status().code(), absl::StatusCode::kNotFound);
}

TEST(JobTableTest, ForgetsTheJobsThatEndedFirstAndTheirRequestIds) {
  JobTable::Options options;
  options.max_ended = 3;
  options.max_queued = 1000;
  JobTable table(options);
  const uint64_t survivor = Submitted(&table, "survivor", "r0");
  for (int i = 1; i <= 200; ++i) {
    End(&table, Submitted(&table, "job", absl::StrCat("r", i)));
  }
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table.num_request_ids(), 4u);
  // The oldest job ends last: it is the newest of the ended ones.
  End(&table, survivor);
  ASSERT_NE(table.Get(survivor), nullptr);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.Get(199), nullptr);
  EXPECT_NE(table.Get(200), nullptr);
}

TEST(JobTableTest, DoesNotForgetAJobWhoseWeightsAreHeld) {
  JobTable::Options options;
  options.max_ended = 1;
  JobTable table(options);
  const uint64_t held = Submitted(&table, "held");
  table.SetWeightsAvailable(held, true);
  End(&table, held);
  for (int i = 0; i < 5; ++i) End(&table, Submitted(&table));
  ASSERT_NE(table.Get(held), nullptr);
  table.SetWeightsAvailable(held, false);
  End(&table, Submitted(&table));
  EXPECT_EQ(table.Get(held), nullptr);
}

TEST(JobTableTest, EventsAndEvaluationsAreBounded) {
  JobTable::Options options;
  options.max_events = 8;
  options.ended_with_all_events = 1;
  options.max_events_of_old = 2;
  options.max_evaluations = 3;
  JobTable table(options);
  const uint64_t id = Submitted(&table);
  for (uint64_t i = 0; i < 20; ++i) {
    v1::Evaluation evaluation;
    evaluation.set_step(i);
    table.AddEvaluation(id, evaluation, kNow);
  }
  EXPECT_EQ(table.Get(id)->evaluation_size(), 3);
  EXPECT_EQ(table.Get(id)->evaluation(0).step(), 17u);
  EXPECT_EQ(table.EventsAfter(id, 0, 100)->events.size(), 8u);
  End(&table, id);
  EXPECT_EQ(table.EventsAfter(id, 0, 100)->events.size(), 8u);
  End(&table, Submitted(&table));
  const auto events = table.EventsAfter(id, 0, 100);
  ASSERT_EQ(events->events.size(), 2u);
  EXPECT_EQ(events->events[1].state().state(), v1::CANCELLED);
  EXPECT_EQ(events->events[0].dropped(), 20u);
}

TEST(JobTableTest, PlanNamesTheDaemons) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  v1::Plan plan;
  plan.set_generation(3);
  plan.add_worker()->set_name("w-1");
  plan.add_server()->set_name("s-1");
  plan.mutable_server(0)->set_address("10.0.0.1:7070");
  table.SetPlan(id, plan, {}, "");
  table.SetPlan(id, plan, {}, "");
  const v1::Job& job = *table.Get(id);
  ASSERT_EQ(job.worker_size(), 1);
  EXPECT_EQ(job.worker(0), "w-1");
  EXPECT_EQ(job.server(0), "s-1");
  EXPECT_EQ(job.server_address(0), "10.0.0.1:7070");
  EXPECT_EQ(job.generation(), 3u);
}

TEST(JobTableTest, PlanTellsHowTheModelIsSpread) {
  JobTable table({});
  const uint64_t id = Submitted(&table);
  v1::Plan plan;
  plan.set_schedule(v1::GPIPE);
  v1::StrategyForecast chosen;
  chosen.set_strategy(v1::HYBRID);
  v1::StageForecast* stage = chosen.add_stage();
  stage->set_first_block_name("embed");
  stage->set_last_block_name("middle");
  stage->set_block_count(3);
  stage->set_parameter_count(1000);
  stage->add_worker("w-1");
  stage->add_worker("w-3");
  table.SetPlan(id, plan, chosen, "the fastest");
  table.SetPlan(id, plan, chosen, "the fastest");
  v1::Utilization utilization;
  utilization.set_bubble(0.25);
  table.SetUtilization(id, utilization);
  const v1::Job& job = *table.Get(id);
  EXPECT_EQ(job.strategy(), v1::HYBRID);
  EXPECT_EQ(job.schedule(), v1::GPIPE);
  EXPECT_EQ(job.plan_reason(), "the fastest");
  ASSERT_EQ(job.stage_size(), 1);
  EXPECT_EQ(job.stage(0).first_block(), "embed");
  EXPECT_EQ(job.stage(0).last_block(), "middle");
  EXPECT_EQ(job.stage(0).block_count(), 3u);
  EXPECT_EQ(job.stage(0).parameter_count(), 1000u);
  ASSERT_EQ(job.stage(0).worker_size(), 2);
  EXPECT_EQ(job.stage(0).worker(1), "w-3");
  EXPECT_EQ(job.utilization().bubble(), 0.25);
  const v1::ListJobsResponse list = table.List({});
  EXPECT_EQ(list.job(0).strategy(), v1::HYBRID);
  EXPECT_EQ(list.job(0).schedule(), v1::GPIPE);
  EXPECT_EQ(list.job(0).utilization().bubble(), 0.25);
}

TEST(JobTableTest, ARequestIsKnownAsLongAsItsJob) {
  JobTable::Options options;
  options.max_ended = 1;
  JobTable table(options);
  EXPECT_FALSE(IsKnown(table, ""));
  const uint64_t first = Submitted(&table, "job", "a");
  Submitted(&table, "job");
  EXPECT_TRUE(IsKnown(table, "a"));
  EXPECT_FALSE(IsKnown(table, "b"));
  EXPECT_FALSE(IsKnown(table, ""));
  End(&table, first);
  EXPECT_TRUE(IsKnown(table, "a"));
  End(&table, Submitted(&table));
  EXPECT_FALSE(IsKnown(table, "a"));
}

TEST(JobTableTest, ListsByState) {
  JobTable table(JobTable::Options{});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(table.Submit(Submission("job"), kNow).ok());
  ASSERT_TRUE(table.ChangeState(2, v1::CANCELLED, "", kNow).ok());
  ASSERT_TRUE(table.ChangeState(4, v1::STARTING, "", kNow).ok());
  v1::ListJobsRequest request;
  request.add_state(v1::QUEUED);
  request.add_state(v1::CANCELLED);
  request.set_page_size(2);
  v1::ListJobsResponse page = table.List(request);
  ASSERT_EQ(page.job_size(), 2);
  EXPECT_EQ(page.job(0).id(), 3u);
  EXPECT_EQ(page.job(1).id(), 2u);
  EXPECT_TRUE(page.more());
  request.set_before_id(2);
  page = table.List(request);
  ASSERT_EQ(page.job_size(), 1);
  EXPECT_EQ(page.job(0).id(), 1u);
  EXPECT_FALSE(page.more());
}

TEST(JobTableTest, DeletesAJobThatHasEndedWithItsRequestId) {
  JobTable table(JobTable::Options{});
  ASSERT_TRUE(table.Submit(Submission("job", "once"), kNow).ok());
  EXPECT_EQ(table.Delete(1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(table.ChangeState(1, v1::CANCELLED, "", kNow).ok());
  EXPECT_TRUE(table.Delete(1).ok());
  EXPECT_EQ(table.Delete(1).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(IsKnown(table, "once"));
  EXPECT_EQ(*table.Submit(Submission("job", "once"), kNow), 2u);
  // What is forgotten of the others does not stumble over it.
  ASSERT_TRUE(table.ChangeState(2, v1::CANCELLED, "", kNow).ok());
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace sangam
