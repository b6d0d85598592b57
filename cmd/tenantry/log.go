package main

import (
	"context"
	"flag"
	"io"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
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
	context.AfterFunc(ctx, func() { _ = l.klog.Set("stderrthreshold", "FATAL") })
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
