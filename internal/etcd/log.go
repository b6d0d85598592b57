package etcd

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// Verbosity of etcd's messages in klog's terms. etcd's warnings are mostly about
// slow disks, and its info messages about every step.
const (
	warningVerbosity = 1
	infoVerbosity    = 4
)

// newLogger returns a logger that writes to klog and calls fail with every message that
// would end the process. The goroutine that logged it ends. Errors before and after etcd
// serves are logged like warnings: Start returns the one that matters, and a stop is no
// error.
func newLogger(serving *atomic.Bool, fail func(error)) *zap.Logger {
	hook := failHook{fail}
	return zap.New(klogCore{LevelEnabler: klogLevels{serving}}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

type failHook struct{ fail func(error) }

// OnWrite implements zapcore.CheckWriteHook.
func (h failHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	h.fail(err)
	runtime.Goexit()
}

// klogLevels follows klog's verbosity, which can change while etcd runs.
type klogLevels struct{ serving *atomic.Bool }

// Enabled implements zapcore.LevelEnabler.
func (l klogLevels) Enabled(level zapcore.Level) bool {
	switch {
	case level < zapcore.WarnLevel:
		return klog.V(infoVerbosity).Enabled()
	case level == zapcore.WarnLevel || !l.serving.Load():
		return klog.V(warningVerbosity).Enabled()
	default:
		return true
	}
}

// klogCore is a zap core that writes to klog.
type klogCore struct {
	zapcore.LevelEnabler
	context []zapcore.Field
}

// With implements zapcore.Core.
func (c klogCore) With(fields []zapcore.Field) zapcore.Core {
	c.context = append(c.context[:len(c.context):len(c.context)], fields...)
	return c
}

// Check implements zapcore.Core.
func (c klogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core. It does not write what ends the process: the caller
// that gets the error reports it.
func (c klogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Level > zapcore.ErrorLevel {
		return nil
	}
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range append(c.context[:len(c.context):len(c.context)], fields...) {
		field.AddTo(encoder)
	}
	pairs := make([]any, 0, 2*len(encoder.Fields))
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		pairs = append(pairs, key, encoder.Fields[key])
	}
	if entry.Level == zapcore.ErrorLevel {
		klog.ErrorS(nil, "etcd: "+entry.Message, pairs...)
	} else {
		klog.InfoS("etcd: "+entry.Message, pairs...)
	}
	return nil
}

// Sync implements zapcore.Core.
func (klogCore) Sync() error { return nil }
