package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
)

// A watch of what has no watch cache, such as events, is one of etcd. If it is from an earlier resource version, etcd
// reads all values that were written since, of everybody, under the lock that each write needs
// (mvcc.watchableStore.syncWatchers). So in a space such watches are from where little was written since, or from a
// short while ago, as after a list, and few of them begin. What is older is gone, and clients list anew.
const (
	// resumeBytes is how many bytes were written since, at most, as far as watch caches know, and bytesOfMark of how
	// many one resource version is remembered.
	resumeBytes = 32 << 20
	bytesOfMark = resumeBytes / 64
	// resumeTime is how long ago a resource version was the last one, at most, and resumeRevisions by how many it is
	// behind in any case.
	resumeTime      = 3 * time.Second
	resumeRevisions = 50
	// resumesPerSecond is how many such watches of a resource begin for a tenant in a second, and resumesAtOnce how
	// many before that holds.
	resumesPerSecond = 1
	resumesAtOnce    = 10
)

// resumes are the watches that begin from a resource version, of one resource.
type resumes struct {
	begun ratelimit.Limits[tenant.Name]

	mu sync.Mutex
	// known are resource versions of the last resumeTime that were the last one at some time.
	known []knownRevision
}

type knownRevision struct {
	revision int64
	at       time.Time
}

func newResumes() *resumes {
	return &resumes{begun: ratelimit.Limits[tenant.Name]{PerSecond: resumesPerSecond, AtOnce: resumesAtOnce}}
}

// note remembers that a resource version is the last one.
func (r *resumes) note(now time.Time, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	if n := len(r.known); n == 0 || now.Sub(r.known[n-1].at) >= resumeTime/10 {
		r.known = append(r.known, knownRevision{revision, now})
	}
}

// forget forgets what was the last one too long ago. It is called with the lock.
func (r *resumes) forget(now time.Time) {
	for len(r.known) > 0 && now.Sub(r.known[0].at) > resumeTime {
		r.known = r.known[1:]
	}
}

// since returns the oldest resource version that is known to have been the last one a short while ago, or by so many
// before that which is.
func (r *resumes) since(now time.Time, current int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	oldest := current - resumeRevisions
	if len(r.known) > 0 {
		oldest = min(oldest, r.known[0].revision)
	}
	return oldest
}

// written is how much was written up to resource versions of late, by what watch caches have seen.
type written struct {
	bytes int64
	marks []writtenMark
}

type writtenMark struct{ version, bytes int64 }

func (w *written) add(version, bytes int64) {
	w.bytes += bytes
	if n := len(w.marks); n == 0 || version > w.marks[n-1].version && w.bytes-w.marks[n-1].bytes >= bytesOfMark {
		w.marks = append(w.marks, writtenMark{version, w.bytes})
	}
	if len(w.marks) > 2*resumeBytes/bytesOfMark {
		w.marks = w.marks[1:]
	}
}

// isLittle reports whether little was written since a resource version. What was written before the first mark is not
// known.
func (w *written) isLittle(version int64) bool {
	later, _ := slices.BinarySearchFunc(w.marks, version+1, func(m writtenMark, v int64) int { return cmp.Compare(m.version, v) })
	return later > 0 && w.bytes-w.marks[later-1].bytes <= resumeBytes
}

// mayResume returns an error if a watch is not to begin at its resource version: a ResourceExpired if that is too long
// ago.
func (s *Space) mayResume(ctx context.Context, c collection) error {
	version, err := s.revision(c.opts.ResourceVersion)
	n, one := c.scope.Tenant()
	if s.cached || !one || err != nil || version == 0 {
		return nil
	}
	if !s.options.Histories.wroteLittle(version) {
		current, err := s.GetCurrentResourceVersion(ctx)
		if err != nil {
			return err
		}
		now, last := time.Now(), int64(current) // a revision of etcd
		s.resumes.note(now, last)
		if oldest := s.resumes.since(now, last); version < oldest {
			return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
		}
	}
	if wait := s.resumes.begun.Take(time.Now(), n, 1); wait > 0 {
		return apierrors.NewTooManyRequests("too many watches of "+s.resource.String()+" begin in this space", int(wait.Seconds())+1)
	}
	return nil
}
