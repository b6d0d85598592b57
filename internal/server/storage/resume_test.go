package storage

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestResume checks that watches of what has no watch cache begin a short while ago at most, and few at a time, so that
// etcd does not read what everybody has written before that. Those of the system space begin anywhere.
func TestResume(t *testing.T) {
	for name, tc := range map[string]struct {
		space  tenant.Name
		cached bool
		gone   bool
	}{
		"a space":              {space: "a", gone: true},
		"a space with a cache": {space: "a", cached: true},
		"the system space":     {space: tenant.System},
	} {
		t.Run(name, func(t *testing.T) {
			configMaps := newBackend(t).configMaps(t, tc.cached)
			then := strconv.FormatInt(revisionOf(t, configMaps.create(t, tc.space, "ns", "first")), 10)
			for i := range resumeRevisions + 1 {
				configMaps.create(t, tc.space, "ns", fmt.Sprint(i))
			}
			event := <-configMaps.watch(t, tc.space.Scope(), "ns", from(then, "")).ResultChan()
			if gone := event.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(event.Object)); gone != tc.gone {
				t.Errorf("got %v, want that it is gone: %v", event, tc.gone)
			}
		})
	}
}

// TestResumeAfterList checks that a watch may begin where a list was, although much was written since, and that few of
// a tenant begin at once.
func TestResumeAfterList(t *testing.T) {
	configMaps := newBackend(t).configMaps(t, false)
	configMaps.resumes.begun.PerSecond = 1e-9
	ctx := configMaps.in(t, tenant.Name("a").Scope(), "ns")
	list := configMaps.newListFunc()
	if err := configMaps.GetList(ctx, registry.NamespaceKeyRootFunc(ctx, configMaps.prefix), listOptions(), list); err != nil {
		t.Fatal(err)
	}
	listed := list.(metav1.ListInterface).GetResourceVersion()
	for i := range resumeRevisions + 1 {
		configMaps.create(t, "a", "ns", fmt.Sprint(i))
	}
	for i := range resumesAtOnce {
		if event := <-configMaps.watch(t, tenant.Name("a").Scope(), "ns", from(listed, "")).ResultChan(); event.Type != watch.Added {
			t.Fatalf("watch %d: %v", i, event)
		}
	}
	if _, err := configMaps.Watch(ctx, registry.NamespaceKeyRootFunc(ctx, configMaps.prefix), listOptions(from(listed, ""))); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more: %v", err)
	}
	if event := <-configMaps.watch(t, tenant.Name("a").Scope(), "ns").ResultChan(); event.Type != watch.Added {
		t.Errorf("from now: %v", event)
	}
	other := configMaps.create(t, "b", "ns", "other")
	if watcher := configMaps.watch(t, tenant.Name("b").Scope(), "ns", from(version(t, other), "")); watcher == nil {
		t.Error("another tenant waits")
	}
}

// TestKnownRevisions checks for how long it is known what was the last resource version.
func TestKnownRevisions(t *testing.T) {
	began, r := time.Now(), newResumes()
	for i := range 100 {
		r.note(began.Add(time.Duration(i)*resumeTime/100), 1000+int64(i))
	}
	if n := len(r.known); n != 10 {
		t.Errorf("%d are known", n)
	}
	for _, tc := range []struct {
		after time.Duration
		want  int64
	}{{resumeTime, 1000}, {resumeTime + 1, 1010}} {
		if oldest := r.since(began.Add(tc.after), 2000); oldest != tc.want {
			t.Errorf("after %s: %d", tc.after, oldest)
		}
	}
	for i := range 1000 { // lists alone, and no watch
		r.note(began.Add(2*resumeTime+time.Duration(i)*resumeTime/10), 1000)
	}
	if n := len(r.known); n > 11 {
		t.Errorf("after lists %d are known", n)
	}
	if oldest := r.since(began.Add(200*resumeTime), 2000); oldest != 2000-resumeRevisions || len(r.known) > 0 {
		t.Errorf("long after that: %d, and %v are known", oldest, r.known)
	}
}

// TestWritten checks since when it is known that little was written.
func TestWritten(t *testing.T) {
	var w written
	if w.isLittle(1) {
		t.Error("it is known before anything was seen")
	}
	const each, first = bytesOfMark / 4, 1000
	for i := range int64(20 * resumeBytes / each) {
		w.add(first+i, each)
	}
	last := first + int64(20*resumeBytes/each) - 1
	for version, want := range map[int64]bool{0: false, first: false, last - 2*resumeBytes/each: false, last - resumeBytes/each/2: true, last: true, last + 1000: true} {
		if w.isLittle(version) != want {
			t.Errorf("since %d, %d bytes ago: %v", version, (last-version)*each, !want)
		}
	}
	if len(w.marks) > 2*resumeBytes/bytesOfMark {
		t.Errorf("%d versions are remembered", len(w.marks))
	}
	var histories *Histories
	if histories.wroteLittle(1) {
		t.Error("it is known without histories")
	}
	histories = NewHistories(1)
	histories.wrote(5, 1)
	if histories.wroteLittle(4) || !histories.wroteLittle(5) {
		t.Error("what caches have seen is not known")
	}
}
