package conditions

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// ProblemPeriod is after what time it is looked again whether somebody has mended what is
	// not watched.
	ProblemPeriod = time.Minute
	// ConflictPeriod is what a cache gets to learn what a controller itself has written.
	ConflictPeriod = 100 * time.Millisecond
)

// Problem is an error of a step that a condition shows: what somebody has to mend, or what is
// waited for. What it concerns is left as it is.
type Problem struct {
	Reason, Message string
	// Again is when to look again, 0 if what ends the problem is watched.
	Again time.Duration
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// Problemf returns a problem whose end is watched.
func Problemf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Unwatchedf returns a problem that is looked at again after ProblemPeriod.
func Unwatchedf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...), Again: ProblemPeriod}
}

// IsProblem reports whether an error is a problem, or wraps one. Errors that are joined are one if
// all of them are: what may end by itself is tried again soon.
func IsProblem(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) { //nolint:errorlint // it unwraps by itself
		case *Problem:
			return true
		case interface{ Unwrap() []error }:
			return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !IsProblem(one) })
		}
	}
	return false
}

// IgnoreProblem returns nil for a problem, which a condition shows, and other errors as they are.
func IgnoreProblem(err error) error {
	if IsProblem(err) {
		return nil
	}
	return err
}
