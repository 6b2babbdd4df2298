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
      "  cluster [drain|undrain|size] [NAME|FILE]\n"
      "                     List servers and workers, drain one, or size them.\n"
      "  certs init|new [ROLE] [NAME]\n"
      "                     Make certificates for a cluster with TLS.\n"
      "  doctor [FILE]      Find what keeps a cluster from working, and the fix.\n"
      "  tokens new         Make a token in place of a client's certificate.\n"
      "  config             Show the values of shared flags and where they come from.\n"
      "  completion bash|zsh|fish\n"
      "                     Print a script that teaches a shell to complete verbs and flags.\n\n"
      "sangam VERB --help tells more of a verb and shows examples; sangam --version\n"
      "the version.\n"
      "Exit codes: 0 success, 1 failure, 2 wrong usage or a job that is refused, 3 job\n"
      "failed, 4 job cancelled, 5 not found, 6 not allowed, 7 coordinator out of reach,\n"
      "8 no room, 9 timeout, 65 damaged data, 130 and 143 interrupted.\n");
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
        "trace", "export", "checkpoint", "resume", "cluster", "completion"}) {
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
            "  --tls_cert=FILE\n"
            "      Certificate (PEM) that says who this process is; with --tls_key and\n"
            "      --tls_ca. A changed file is taken without a restart.\n"
            "  --tls_key=FILE\n"
            "      Its private key (PEM), which others must not be able to read.\n"
            "  --tls_ca=FILE\n"
            "      Authorities (PEM) whose certificates are trusted.\n"
            "  --trust_domain=NAME\n"
            "      Certificates must be for spiffe://NAME/role/ROLE[/NAME-OF-THE-HOLDER].\n"
            "      Default: sangam.\n"
            "  --token_file=FILE\n"
            "      Token in place of a certificate, with --tls_ca; others must not be able to\n"
            "      read the file.\n"
            "  --config=FILE\n"
            "      A file with values for flags that verbs share, such as --coordinator; see\n"
            "      sangam config.\n"
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

TEST_F(CommandListTest, SharedFlagsComeFromTheEnvironmentAndAFile) {
  const std::string file =
      WriteFile("a.conf", "coordinator = 127.0.0.1:2\ntimeout = 200ms\noutput = json\n");
  environment_.variables = {"SANGAM_TIMEOUT=100ms", "SANGAM_CONFIG=" + file,
                            // Of daemons, or of a verb alone: not meant.
                            "SANGAM_NAME=w-1", "SANGAM_LIMIT=x", "SANGAM_LISTEN=y"};
  EXPECT_EQ(Run({"list"}), 7);
  EXPECT_THAT(err(), HasSubstr("coordinator 127.0.0.1:2 cannot be reached"));
  EXPECT_EQ(Run({"list", "--coordinator=127.0.0.1:3"}), 7);
  EXPECT_THAT(err(), HasSubstr("coordinator 127.0.0.1:3 cannot be reached"));
  // A verb that has no --output passes it over.
  EXPECT_EQ(Run({"export", "1", "--out=/nonexistent/x"}), 7);
}

TEST_F(CommandListTest, FaultsOfOtherSourcesAreUsageErrors) {
  environment_.variables = {"SANGAM_TIMEOUT=x"};
  EXPECT_EQ(Run({"list"}), 2);
  EXPECT_THAT(err(), HasSubstr("environment variable SANGAM_TIMEOUT: found 'x'"));
  environment_.variables = {"SANGAM_CONFIG=" + WriteFile("a.conf", "\ncoordinatr = x\n")};
  EXPECT_EQ(Run({"list"}), 2);
  EXPECT_THAT(err(), HasSubstr("a.conf:2: unknown name 'coordinatr'; did you mean 'coordinator'?"));
  environment_.variables = {"SANGAM_CONFIG=" + WriteFile("b.conf", "limit = 3\n")};
  EXPECT_EQ(Run({"list"}), 2);
  EXPECT_THAT(err(), HasSubstr("b.conf:1: unknown name 'limit'"));
  // Help never fails.
  EXPECT_EQ(Run({"list", "--help"}), 0);
}

TEST_F(CommandListTest, TheManualHasEveryVerb) {
  EXPECT_EQ(Run({"--print_man"}), 0);
  for (const std::string verb : {"run FILE", "plan FILE", "config"}) {
    EXPECT_THAT(out(), HasSubstr("\n.SS \"" + verb + "\"\n"));
  }
}

TEST_F(CommandListTest, AnUnreachableCoordinatorIsAFailureWithAHint) {
  EXPECT_EQ(Run({"list", "--timeout=100ms"}), 7);
  EXPECT_THAT(err(), HasSubstr("sangam list: coordinator 127.0.0.1:1 cannot be reached: "));
  EXPECT_THAT(err(), HasSubstr("Does sangam-server run there? --coordinator=HOST:PORT"));
  EXPECT_THAT(err(), HasSubstr("'sangam doctor' looks for the cause."));
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
