package storage

import (
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

const (
	// fillers are sent so many at a time, and some more where there is much room: watchers of
	// all spaces are offered each, and the shortest of their queues has ten places.
	fillers        = 8
	fillersPerRoom = 2000
	fillerPause    = time.Millisecond
)

// historyWatch is the watch of a watch cache, with fillers where its history is dropped.
type historyWatch struct {
	*roundtrip.Relay
	history *history
	ended   chan struct{}
	// dropping is whether fillers are sent, at the pace of the ticker.
	dropping bool
	pace     *time.Ticker
	// before is what had been added to the history when it was asked to drop that.
	before int64
	// present is whether the cache has the filler.
	present bool
}

func newHistoryWatch(h *history, source watch.Interface) *historyWatch {
	// Without a buffer, what was sent is what the cache has got.
	w := &historyWatch{Relay: roundtrip.NewRelay(source, 0), history: h, ended: make(chan struct{}), pace: time.NewTicker(fillerPause)}
	w.pace.Stop()
	go w.run()
	return w
}

func (w *historyWatch) run() {
	defer close(w.ended)
	defer close(w.Result)
	defer w.endDrop()
	relist := make(chan struct{}, 1)
	if w.history.shared != nil {
		go w.lookAgain(relistPeriod, relist)
	}
	for {
		select {
		case <-w.Done:
			return
		case <-relist:
			w.end(errorEvent(apierrors.NewResourceExpired("objects that could not be converted are looked at again")), true)
			return
		case <-w.history.closing.Done():
			w.Send(errorEvent(errClosing))
			return
		case <-w.history.dropSignal:
			droppedHistories.Inc()
			w.beginDrop()
		case <-w.pace.C:
			if !w.fill() {
				return
			}
		case event, ok := <-w.Source.ResultChan():
			if !ok || event.Type == watch.Error {
				w.history.failedWatches.Add(1)
				w.end(event, ok)
				return
			}
			if !w.Send(event) {
				return
			}
			w.history.passed(event)
		}
	}
}

// lookAgain tells relist when something that was left out can be converted now. Events do not wait for that.
func (w *historyWatch) lookAgain(period time.Duration, relist chan<- struct{}) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-w.Done:
			return
		case <-w.ended:
			return
		case <-ticker.C:
			if w.history.takesBack() {
				relist <- struct{}{}
				return
			}
		}
	}
}

// end drops the history, and then lets the cache know that its watch has ended: from then on
// it takes fillers only when it has listed, and that fails as long as a tenant's conversion
// webhook does.
func (w *historyWatch) end(event watch.Event, failed bool) {
	for w.beginDrop(); w.dropping; {
		select {
		case <-w.Done:
			return
		case <-w.history.closing.Done():
			return
		case <-w.pace.C:
			if !w.fill() {
				return
			}
		}
	}
	if failed {
		w.Send(event)
	}
}

func (w *historyWatch) beginDrop() {
	w.dropping, w.before = true, w.history.past.added
	w.pace.Reset(fillerPause)
}

// fill sends some fillers, which appear and disappear, until they have displaced what is to
// be dropped. It reports false if the watch has been stopped.
func (w *historyWatch) fill() bool {
	past := &w.history.past
	for n := 0; n < fillers+past.capacity/fillersPerRoom || past.full(); n++ {
		if !w.present && past.bytes <= past.added-w.before {
			w.endDrop()
			return true
		}
		kind := watch.Added
		if w.present {
			kind = watch.Deleted
		}
		w.history.drop()
		at := past.fillerTime()
		if !w.Send(watch.Event{Type: kind, Object: &fillerEvent{w.history.filler, strconv.FormatUint(w.history.reached.Load(), 10), at}}) {
			return false
		}
		w.present = !w.present
		past.add(at, 0)
	}
	return true
}

func (w *historyWatch) endDrop() {
	w.pace.Stop()
	if w.dropping {
		w.dropping = false
		w.history.all.dropped(w.history, w.history.past.bytes)
	}
}

// fillerEvent is a filler at the resource version that the cache has reached. The cache
// takes the object out of it.
type fillerEvent struct {
	runtime.Object
	version string
	at      time.Time
}

var _ storage.WatchEventWithRecordTime = &fillerEvent{}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (e *fillerEvent) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{ResourceVersion: e.version}
}

// RecordTime implements storage.WatchEventWithRecordTime.
func (e *fillerEvent) RecordTime() time.Time { return e.at }

// Unwrap implements storage.WatchEventWithRecordTime.
func (e *fillerEvent) Unwrap() runtime.Object { return e.Object }
