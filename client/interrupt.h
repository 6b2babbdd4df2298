#ifndef SANGAM_CLIENT_INTERRUPT_H_
#define SANGAM_CLIENT_INTERRUPT_H_

namespace sangam {

// Makes SIGINT (Ctrl-C), SIGTERM and SIGHUP count instead of ending the process, and a write to a
// closed pipe an error instead of SIGPIPE. Waiting system calls are interrupted. Call it once,
// before threads start.
void CatchInterrupts();

// How often one of the signals has come.
int Interrupts();

// The number of the first that came; 0: none has.
int FirstInterrupt();

}  // namespace sangam

#endif  // SANGAM_CLIENT_INTERRUPT_H_
