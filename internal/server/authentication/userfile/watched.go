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
	// pollInterval is how often a file is read where its changes are not seen.
	pollInterval = time.Minute
	// settleTime is for how long a changed file must stay as it is before it
	// counts: a line that is half written may be valid and mean another tenant.
	// unendedTime is that of a file whose last line has no end yet.
	settleTime  = 100 * time.Millisecond
	unendedTime = time.Second
)

// watched is what a file said when it was last valid.
type watched[T any] struct {
	// what the file holds, for messages and metrics: "token", "basic-auth".
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

// Run reads the file again when it changes, until ctx ends. What cannot be read
// changes nothing.
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

// settled returns the content of the file once nobody writes it any more.
func (w *watched[T]) settled(ctx context.Context) ([]byte, error) {
	content, err := os.ReadFile(w.path)
	for err == nil && !bytes.Equal(content, w.seen) {
		quiet := settleTime
		if !bytes.HasSuffix(content, []byte("\n")) {
			quiet = unendedTime
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(quiet):
		}
		before := content
		if content, err = os.ReadFile(w.path); bytes.Equal(before, content) {
			break
		}
	}
	return content, err
}
