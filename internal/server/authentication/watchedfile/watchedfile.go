package watchedfile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/signal"
)

const (
	// pollInterval is how often a file is read whose changes are not notified.
	pollInterval = time.Minute
	// settleTime is how long a changed file must not change again before it is used: a
	// partly written line may be valid and name another tenant. incompleteTime is how long
	// the rest of a file may take whose last line has no newline yet.
	settleTime     = 100 * time.Millisecond
	incompleteTime = time.Second
)

// File is the last valid content of a file.
type File[T any] struct {
	path    string
	parse   func([]byte) (T, error)
	report  func(error)
	current atomic.Pointer[T]
	seen    []byte
}

// Open reads a file for the first time. When it has been read again, report gets nil, or the
// reason why the content before stays in force.
func Open[T any](path string, parse func([]byte) (T, error), report func(error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse, report: report}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return f, f.take(content)
}

// Current returns the last valid content.
func (f *File[T]) Current() T { return *f.current.Load() }

// Set puts other content in the place of that of the file.
func (f *File[T]) Set(content T) { f.current.Store(&content) }

func (f *File[T]) take(content []byte) error {
	f.seen = content
	parsed, err := f.parse(content)
	if err == nil {
		f.Set(parsed)
	}
	return err
}

// Run reads the file again when it changes, until ctx ends.
func (f *File[T]) Run(ctx context.Context) {
	filesystem.WatchUntil(ctx, pollInterval, f.path, func() {
		content, err := f.settled(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			f.report(fmt.Errorf("reading %s: %w", f.path, err))
		case !bytes.Equal(content, f.seen):
			f.report(f.take(content))
		}
	}, func(err error) {
		klog.ErrorS(err, "Watching a file", "file", f.path)
	})
}

// settled returns the content of the file once it does not change any more.
func (f *File[T]) settled(ctx context.Context) ([]byte, error) {
	content, err := os.ReadFile(f.path)
	for err == nil && !bytes.Equal(content, f.seen) {
		wait := settleTime
		if !bytes.HasSuffix(content, []byte("\n")) {
			wait = incompleteTime
		}
		if err := signal.Pause(ctx, wait); err != nil {
			return nil, err
		}
		before := content
		if content, err = os.ReadFile(f.path); bytes.Equal(before, content) {
			break
		}
	}
	return content, err
}
