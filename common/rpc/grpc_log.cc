#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace sangam {

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    Log(LogLevel::kDebug, "grpc",
        absl::StrCat("severity=", gpr_log_severity_string(args->severity), " file=", args->file,
                     " line=", args->line, " message=", LogValue(args->message)));
  });
}

}  // namespace sangam
