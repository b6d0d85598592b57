package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/text"
)

// logFlags are the flag -v. Without it only errors are logged, and only while
// the process serves: what the parts say to each other while they start or stop
// is no news, and what makes a start fail is returned as an error.
type logFlags struct {
	klog *flag.FlagSet
	// level is empty unless it was asked for.
	level string
}

func (l *logFlags) add(fs *pflag.FlagSet) {
	l.klog = flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(l.klog)
	klog.SetOutput(io.Discard)
	fs.VarP(l, "v", "v", "Log verbosity: errors only by default; 0 logs all messages, higher levels more detail.")
	_ = l.klog.Set("logtostderr", "false")
	_ = l.klog.Set("alsologtostderr", "false")
	_ = l.klog.Set("stderrthreshold", "FATAL")
}

// errorsUntil logs errors until ctx ends.
func (l *logFlags) errorsUntil(ctx context.Context) {
	if l.level != "" {
		return
	}
	_ = l.klog.Set("stderrthreshold", "ERROR")
	handleErrors(dropRetry)
	context.AfterFunc(ctx, func() { _ = l.klog.Set("stderrthreshold", "FATAL") })
}

// handleErrors has errors of controllers passed through a function before they are logged. None is logged of which it
// returns nil.
func handleErrors(pass func(error) error) {
	handlers := slices.Clone(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(ctx context.Context, err error, msg string, keysAndValues ...any) {
			passed := pass(err)
			if passed == nil && err != nil {
				return
			}
			for _, handle := range handlers {
				handle(ctx, passed, msg, keysAndValues...)
			}
		},
	}
}

// dropRetry keeps one kind of error out of the log: a controller whose cache has yet to see the controller's own write
// says so and tries again, many times a day on a healthy server.
func dropRetry(err error) error {
	if err != nil && strings.Contains(err.Error(), "is not as new as written version") {
		return nil
	}
	return err
}

// maxError is how many bytes of an error are logged.
const maxError = 4 << 10

// boundError cuts an error. A tenant's webhook may say 64 KiB about each attempt of a controller.
func boundError(err error) error {
	if err == nil {
		return nil
	}
	whole := err.Error()
	if len(whole) <= maxError {
		return err
	}
	return fmt.Errorf("%s... (%d bytes)", text.Cut(whole, maxError), len(whole))
}

// Set implements pflag.Value.
func (l *logFlags) Set(s string) error {
	if err := l.klog.Set("v", s); err != nil {
		return err
	}
	l.level = s
	return l.klog.Set("logtostderr", "true")
}

// String implements pflag.Value.
func (l *logFlags) String() string { return l.level }

// Type implements pflag.Value.
func (l *logFlags) Type() string { return "level" }
