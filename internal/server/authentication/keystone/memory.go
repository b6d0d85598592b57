package keystone

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

const (
	// maxRemembered is how many valid secrets are remembered, and how many others: these do
	// not drive those out.
	maxRemembered = 8192
	// outageLogInterval is how often an outage is logged.
	outageLogInterval = 10 * time.Second
)

// memory remembers what Keystone says of secrets of one kind, by their digests, and asks once
// for all who want to know about the same.
type memory struct {
	timeout, ttl, negativeTTL time.Duration
	valid, invalid            *cache.LRUExpireCache
	flights                   singleflight.Group
	places                    *places
	// kind is what the secrets are, for the log.
	kind    string
	outages rate.Sometimes

	results *metrics.CounterVec
	seconds *metrics.Histogram
	hits    *metrics.CounterVec
}

func newMemory(config Config, negativeTTL time.Duration, places *places, kind string, results *metrics.CounterVec, seconds *metrics.Histogram, hits *metrics.CounterVec) *memory {
	return &memory{
		timeout: config.Timeout, ttl: config.TTL, negativeTTL: negativeTTL, places: places, kind: kind,
		valid: cache.NewLRUExpireCache(maxRemembered), invalid: cache.NewLRUExpireCache(maxRemembered),
		outages: rate.Sometimes{Interval: outageLogInterval}, results: results, seconds: seconds, hits: hits,
	}
}

// verdict is what is known of a secret: who it is, or why it is refused.
type verdict struct {
	identity *Identity
	refused  error
}

// ask asks Keystone. The answer is not true after a time.
type ask func(ctx context.Context) (verdict, time.Time, error)

// find returns who a secret is for: nil if Keystone does not know it.
func (m *memory) find(ctx context.Context, digest string, ask ask) (*Identity, error) {
	if found, ok := m.remembered(digest); ok {
		return found.identity, found.refused
	}
	m.hits.WithLabelValues("nothing").Inc()
	client := addressOf(ctx)
	flight := m.flights.DoChan(digest, func() (any, error) { return m.lookUp(client, digest, ask) })
	select {
	case result := <-flight:
		if result.Err != nil {
			return nil, result.Err
		}
		found := result.Val.(verdict)
		return found.identity, found.refused
	case <-ctx.Done():
		return nil, identity.Unavailable(ctx.Err())
	}
}

func (m *memory) remembered(digest string) (verdict, bool) {
	if found, ok := m.valid.Get(digest); ok {
		m.hits.WithLabelValues(resultValid).Inc()
		return found.(verdict), true
	}
	if _, ok := m.invalid.Get(digest); ok {
		m.hits.WithLabelValues(resultInvalid).Inc()
		return verdict{}, true
	}
	return verdict{}, false
}

// lookUp asks Keystone, for all requests that wait for the same secret. It ends with
// none of them.
func (m *memory) lookUp(client, digest string, ask ask) (verdict, error) {
	release, err := m.places.acquire(client)
	if err != nil {
		m.results.WithLabelValues(resultBusy).Inc()
		return verdict{}, identity.Unavailable(errBusy)
	}
	defer release()
	if found, ok := m.remembered(digest); ok { // since this request has looked
		return found, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	begin := time.Now()
	found, until, err := ask(ctx)
	if _, is := errors.AsType[*identity.Limited](err); is {
		m.results.WithLabelValues(resultLimited).Inc()
		return verdict{}, err
	}
	m.seconds.Observe(time.Since(begin).Seconds())
	switch {
	case errors.Is(err, keystone.ErrNotValid), err == nil && !until.After(time.Now()):
		m.forget(digest)
		return verdict{}, nil
	case err == nil && time.Since(begin) >= m.ttl:
		err = errSlow // which is no denial
	}
	if err != nil {
		m.results.WithLabelValues(resultOutage).Inc()
		m.outages.Do(func() {
			klog.ErrorS(err, "Keystone cannot be asked about "+m.kind+"; requests with those that are not remembered get 503", "nextLog", outageLogInterval)
		})
		return verdict{}, identity.Unavailable(err)
	}
	if found.refused != nil {
		m.results.WithLabelValues(resultRefused).Inc()
	} else {
		m.results.WithLabelValues(resultValid).Inc()
	}
	// Not from now on: the answer may be as old as the request.
	m.valid.Add(digest, found, min(time.Until(begin.Add(m.ttl)), time.Until(until)))
	return found, nil
}

// forget remembers that a secret is not valid.
func (m *memory) forget(digest string) {
	m.results.WithLabelValues(resultInvalid).Inc()
	m.invalid.Add(digest, nil, m.negativeTTL)
}

var (
	errBusy = errors.New("too many wait to be looked up in Keystone")
	errSlow = errors.New("an answer of Keystone took longer than cacheTTL, for which it may be believed; raise cacheTTL")
)
