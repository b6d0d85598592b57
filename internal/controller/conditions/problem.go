package conditions

import (
	"errors"
	"fmt"
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

func (p *Problem) Error() string { return p.Message }

// Problemf returns a problem whose end is watched.
func Problemf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Unwatchedf returns a problem that is looked at again after ProblemPeriod.
func Unwatchedf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...), Again: ProblemPeriod}
}

// IsProblem reports whether an error is a problem, or has one in it.
func IsProblem(err error) bool {
	_, is := errors.AsType[*Problem](err)
	return is
}

// IgnoreProblem returns nil for a problem, which a condition shows, and other errors as they are.
func IgnoreProblem(err error) error {
	if IsProblem(err) {
		return nil
	}
	return err
}
