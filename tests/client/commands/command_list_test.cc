#include "client/commands/command_list.h"

#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandListTest : public CommandFixture {};

TEST_F(CommandListTest, HelpListsTheVerbs) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_EQ(
      out(),
      "Sangam trains neural networks with parameter servers.\n\n"
      "Usage: sangam VERB [ARGUMENT] [--FLAG=VALUE]...\n\n"
      "  run FILE           Run a job on this machine, with daemons of its own.\n"
      "  plan FILE          Show how a job would run: the strategies, their memory and time.\n"
      "  submit FILE        Queue a job.\n"
      "  list               List the jobs.\n"
      "  describe JOB       Show all that is known of a job.\n"
      "  watch JOB          Follow a job to its end.\n"
      "  wait JOB           Wait until a job has ended, or has come to a state.\n"
      "  logs JOB           Show what the daemons logged about a job.\n"
      "  cancel JOB         End a job.\n"
      "  delete JOB         Forget a job that has ended.\n"
      "  trace JOB          Write what a job's workers did to a file for a trace viewer.\n"
      "  export JOB         Write a job's weights to a file.\n"
      "  checkpoint list|verify [JOB[/STEP]]\n"
      "                     List checkpoints, or read one from end to end.\n"
      "  resume JOB[/STEP]  Queue a job that goes on from a checkpoint.\n"
      "  cluster            List the servers and workers.\n\n"
      "sangam VERB --help tells more of a verb and shows examples; sangam --version\n"
      "the version.\n"
      "Exit codes: 0 success, 1 failure, 2 wrong usage or a job that is refused,\n"
      "3 job failed, 4 job cancelled, 5 not found, 7 coordinator out of reach,\n"
      "8 no room, 9 timeout, 65 damaged data, 130 interrupted.\n");
  EXPECT_EQ(err(), "");
  const std::string help = out();
  EXPECT_EQ(Run({"help"}), 0);
  EXPECT_EQ(out(), help);
  EXPECT_EQ(Run({"-h"}), 0);
  // Without a verb the help is an error.
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), help);
}

TEST_F(CommandListTest, EveryVerbHasHelpWithExamples) {
  for (const std::string verb :
       {"run", "plan", "submit", "list", "describe", "watch", "wait", "logs", "cancel", "delete",
        "trace", "export", "checkpoint", "resume", "cluster"}) {
    EXPECT_EQ(Run({verb, "--help"}), 0) << verb;
    EXPECT_THAT(out(), HasSubstr("\nUsage: sangam " + verb)) << verb;
    EXPECT_THAT(out(), HasSubstr("\nExamples\n  sangam " + verb)) << verb;
    EXPECT_EQ(err(), "");
    const std::string help = out();
    for (const absl::string_view line : absl::StrSplit(help, '\n'))
      EXPECT_LE(line.size(), 80u) << line;
    EXPECT_EQ(Run({"help", verb}), 0) << verb;
    EXPECT_EQ(out(), help);
  }
}

TEST_F(CommandListTest, HelpOfAVerb) {
  EXPECT_EQ(Run({"cancel", "--help"}), 0);
  EXPECT_EQ(out(),
            "End a job.\n\n"
            "Usage: sangam cancel JOB [--FLAG=VALUE]...\n\n"
            "JOB is a job's number, or its name: then the newest job of that name. A job that\n"
            "has ended stays as it is.\n\n"
            "Flags\n"
            "  --reason=TEXT\n"
            "      Kept with the job. Default: cancelled by the user.\n"
            "  --coordinator=HOST:PORT\n"
            "      Where the coordinator (a sangam-server) answers. The environment variable\n"
            "      SANGAM_COORDINATOR sets the default. Default: 127.0.0.1:1.\n"
            "  --timeout=TIME\n"
            "      How long to try to reach the coordinator. Default: 10s.\n"
            "  --output=table|json\n"
            "      A table for people, or JSON for programs. Default: table.\n\n"
            "Examples\n"
            "  sangam cancel 12\n"
            "  sangam cancel 12 --reason='wrong learning rate'\n");
}

TEST_F(CommandListTest, Version) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_THAT(out(), StartsWith("sangam 0."));
  const std::string version = out();
  EXPECT_EQ(Run({"version"}), 0);
  EXPECT_EQ(out(), version);
}

TEST_F(CommandListTest, UnknownVerbsSuggestTheClosest) {
  EXPECT_EQ(Run({"submt", "x"}), 2);
  EXPECT_EQ(err(),
            "sangam: unknown verb 'submt'; did you mean 'submit'?\n"
            "'sangam --help' lists the verbs.\n");
  EXPECT_EQ(Run({"--coordinator=x", "list"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown flag --coordinator=x; flags come behind the verb"));
  EXPECT_EQ(Run({"help", "lsit"}), 2);
  EXPECT_THAT(err(), HasSubstr("did you mean 'list'?"));
}

TEST_F(CommandListTest, WrongArgumentsAreUsageErrors) {
  EXPECT_EQ(Run({"watch"}), 2);
  EXPECT_EQ(err(), "sangam watch: JOB is missing\n'sangam watch --help' shows what it takes.\n");
  EXPECT_EQ(Run({"list", "x"}), 2);
  EXPECT_THAT(err(), HasSubstr("sangam list: unexpected argument 'x'"));
  EXPECT_EQ(Run({"list", "--ouput=json"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown flag --ouput; did you mean '--output'?"));
  EXPECT_EQ(Run({"list", "--limit=x"}), 2);
  EXPECT_EQ(Run({"list", "--coordinator=nowhere"}), 2);
  EXPECT_THAT(err(), HasSubstr("nowhere"));
  EXPECT_EQ(out(), "");
}

TEST_F(CommandListTest, AnUnreachableCoordinatorIsAFailureWithAHint) {
  EXPECT_EQ(Run({"list", "--timeout=100ms"}), 7);
  EXPECT_THAT(err(), HasSubstr("sangam list: coordinator 127.0.0.1:1 cannot be reached: "));
  EXPECT_THAT(err(), HasSubstr("Does sangam-server run there? --coordinator=HOST:PORT"));
}

TEST_F(CommandListTest, AnInterruptHasItsOwnExitCode) {
  interrupts_ = 1;
  EXPECT_EQ(Run({"list", "--timeout=1h"}), 130);
  EXPECT_EQ(err(), "sangam list: interrupted\n");
}

TEST_F(CommandListTest, ALostReaderEndsACommand) {
  console_.is_broken = true;
  EXPECT_EQ(Run({"list", "--timeout=1h"}), 1);
}

}  // namespace
}  // namespace sangam
