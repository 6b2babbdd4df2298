#ifndef SANGAM_COMMON_RPC_PROCESS_STATE_H_
#define SANGAM_COMMON_RPC_PROCESS_STATE_H_

#include <string>

namespace sangam {

// What the system knows of this process, "pid=12 threads=9 rss_bytes=1048576 open_files=17", for a
// log line. What cannot be found out is left away.
std::string DescribeProcess();

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_PROCESS_STATE_H_
