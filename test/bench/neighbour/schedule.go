package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Scheduling policies, as arguments of chrt(1).
const (
	realTime = "--rr"
	normal   = "--other"
	whenIdle = "--idle"
)

// scheduled returns a command with a scheduling policy of its own.
func scheduled(ctx context.Context, policy, name string, args ...string) *exec.Cmd {
	priority := "0"
	if policy == realTime {
		priority = "1"
	}
	return exec.CommandContext(ctx, "chrt", append([]string{policy, priority, name}, args...)...)
}

// isScheduled is a variable in the environment of a process that scheduleFirst has begun.
const isScheduled = "TENANTRY_NEIGHBOUR_SCHEDULED"

// scheduleFirst begins this process anew with real-time priority.
func scheduleFirst(ctx context.Context) error {
	if os.Getenv(isScheduled) != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	again := scheduled(ctx, realTime, self, os.Args[1:]...)
	if again.Err != nil {
		return again.Err
	}
	err = syscall.Exec(again.Path, again.Args, append(os.Environ(), isScheduled+"=yes"))
	return fmt.Errorf("%s: %w", again.Path, err)
}
