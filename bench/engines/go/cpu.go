package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time, user and system, that all threads of a process have used. The clock counts in
// nanoseconds, where getrusage counts in the same sum cut to microseconds or ticks.
func cpuTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(processClock(pid), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

// processClock is the number of the clock that clock_getcpuclockid(3) gives for a process.
func processClock(pid int) int32 {
	const scheduler = 2
	return int32(^pid)<<3 | scheduler
}

// ownCPUTime is cpuTime of this process.
func ownCPUTime() (time.Duration, error) { return cpuTime(0) }

// Where there are two cores the server has one to itself, so that the load does not share its caches or its time.
var serverCore, loadCore = 1, 0

// pin keeps the calling thread, and what it starts from now on, on one core; on a machine with a single one it does
// nothing. The caller has locked its goroutine to the thread.
func pin(core int) (unpin func(), err error) {
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	if before.Count() < 2 || !before.IsSet(core) {
		return func() {}, nil
	}
	only.Set(core)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return nil, err
	}
	return func() { _ = unix.SchedSetaffinity(0, &before) }, nil
}
