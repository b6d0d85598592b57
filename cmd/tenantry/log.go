package main

import (
	"flag"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// addLogFlags adds -v. Without it only warnings and errors are logged.
func addLogFlags(fs *pflag.FlagSet) {
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(logs)
	_ = logs.Set("logtostderr", "false")
	_ = logs.Set("alsologtostderr", "false")
	_ = logs.Set("stderrthreshold", "ERROR")
	level := verbosity{logs: logs}
	fs.VarP(&level, "v", "v", "Log verbosity: errors only by default; 0 logs all messages, higher levels more detail.")
	klog.SetOutput(discard{})
}

// verbosity turns logging on and sets its level.
type verbosity struct {
	logs  *flag.FlagSet
	value string
}

func (v *verbosity) Set(s string) error {
	if err := v.logs.Set("v", s); err != nil {
		return err
	}
	v.value = s
	return v.logs.Set("logtostderr", "true")
}

func (v *verbosity) String() string { return v.value }
func (v *verbosity) Type() string   { return "level" }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
