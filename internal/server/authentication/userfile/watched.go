package userfile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"
)

const (
	// pollInterval is how often a file is read whose changes are not notified.
	pollInterval = time.Minute
	// settleTime is how long a changed file must not change again before it is used: a
	// partly written line may be valid and name another tenant. incompleteTime is the same
	// for a file whose last line has no newline yet.
	settleTime     = 100 * time.Millisecond
	incompleteTime = time.Second
)

// watched is the last valid content of a file.
type watched[T any] struct {
	// what names the file in messages and metrics: "token", "basic-auth".
	what    string
	path    string
	parse   func([]byte) (T, error)
	current atomic.Pointer[T]
	seen    []byte
}

// open reads the file for the first time.
func open[T any](what, path string, parse func([]byte) (T, error)) (*watched[T], error) {
	w := &watched[T]{what: what, path: path, parse: parse}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the %s file: %w", what, err)
	}
	return w, w.take(content)
}

func (w *watched[T]) take(content []byte) error {
	w.seen = content
	parsed, err := w.parse(content)
	if err != nil {
		return fmt.Errorf("%s file %q, %w", w.what, w.path, err)
	}
	w.current.Store(&parsed)
	return nil
}

// Run reads the file again when it changes, until ctx ends. If it cannot be read, the last
// valid content stays.
func (w *watched[T]) Run(ctx context.Context) {
	filesystem.WatchUntil(ctx, pollInterval, w.path, func() {
		content, err := w.settled(ctx)
		if err != nil || bytes.Equal(content, w.seen) {
			if err != nil && ctx.Err() == nil {
				w.report(fmt.Errorf("reading the %s file: %w", w.what, err))
			}
			return
		}
		w.report(w.take(content))
	}, func(err error) {
		klog.ErrorS(err, "Watching a file of users", "file", w.path)
	})
}

func (w *watched[T]) report(err error) {
	if err != nil {
		reloadsTotal.WithLabelValues(w.what, "failure").Inc()
		klog.ErrorS(err, "File of users not read again, its last valid content stays in force", "file", w.path)
		return
	}
	reloadsTotal.WithLabelValues(w.what, "success").Inc()
	klog.InfoS("File of users read again", "file", w.path)
}

// settled returns the content of the file once it does not change any more.
func (w *watched[T]) settled(ctx context.Context) ([]byte, error) {
	content, err := os.ReadFile(w.path)
	for err == nil && !bytes.Equal(content, w.seen) {
		wait := settleTime
		if !bytes.HasSuffix(content, []byte("\n")) {
			wait = incompleteTime
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		before := content
		if content, err = os.ReadFile(w.path); bytes.Equal(before, content) {
			break
		}
	}
	return content, err
}
