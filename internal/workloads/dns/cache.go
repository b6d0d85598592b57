package dns

import (
	"hash/maphash"
	"strings"
	"time"

	"github.com/miekg/dns"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// shards is how many parts the cache has. A tenant has one of them, with others: what it asks displaces
	// nothing in the rest.
	shards    = 64
	shardSize = 256
	// maxKept is how large, in bytes, an answer is that is remembered.
	maxKept = 4096
	// keptFor and noneKeptFor are how long an answer, and that there is nothing, is remembered at most.
	keptFor     = 30 * time.Second
	noneKeptFor = 5 * time.Second
	// failureKeptFor is how long it is remembered that upstreams do not know.
	failureKeptFor = time.Second
)

// question is what is asked for outside, by whom: no tenant can see what others have asked.
type question struct {
	of     tenantID
	name   string
	qtype  uint16
	dnssec bool
	// unchecked is whether who asks wants to validate signatures itself.
	unchecked bool
}

// answers remembers answers from outside. Its size is bounded, and does not depend on how many tenants there are.
type answers struct {
	seed   maphash.Seed
	shards [shards]*utilcache.LRUExpireCache
}

// cachedAnswer is an answer, as it was at a time.
type cachedAnswer struct {
	message []byte
	at      time.Time
}

func newAnswers() *answers {
	a := &answers{seed: maphash.MakeSeed()}
	for i := range a.shards {
		a.shards[i] = utilcache.NewLRUExpireCache(shardSize)
	}
	return a
}

func (a *answers) of(q question) *utilcache.LRUExpireCache {
	return a.shards[maphash.Comparable(a.seed, q.of)%shards]
}

// get returns what is remembered, nil if that is nothing.
func (a *answers) get(q question) *dns.Msg {
	found, ok := a.of(q).Get(q)
	if !ok {
		return nil
	}
	k, m := found.(cachedAnswer), new(dns.Msg)
	if m.Unpack(k.message) != nil {
		return nil
	}
	age := uint32(time.Since(k.at) / time.Second) // at most keptFor
	for _, section := range [][]dns.RR{m.Answer, m.Ns} {
		for _, record := range section {
			h := record.Header()
			h.Ttl -= min(h.Ttl, age)
		}
	}
	return m
}

// put remembers an answer, if it says for how long it may be.
func (a *answers) put(q question, m *dns.Msg) {
	lasts := lasting(m)
	if m.Truncated || lasts <= 0 {
		return
	}
	packed, err := m.Pack()
	if err != nil || len(packed) > maxKept {
		return
	}
	a.of(q).Add(q, cachedAnswer{packed, time.Now()}, lasts)
}

// lasting returns how long an answer is good for.
func lasting(m *dns.Msg) time.Duration {
	if isFailure(m.Rcode) {
		return failureKeptFor
	}
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0
	}
	least, found := keptFor, false
	for _, record := range m.Answer {
		found = true
		least = min(least, time.Duration(record.Header().Ttl)*time.Second)
	}
	if m.Rcode == dns.RcodeSuccess && found {
		return least
	}
	for _, record := range m.Ns {
		if soa, ok := record.(*dns.SOA); ok {
			return min(least, noneKeptFor, time.Duration(min(soa.Minttl, soa.Hdr.Ttl))*time.Second)
		}
	}
	return 0
}

// questionOf returns a question as it is remembered.
func questionOf(of tenantID, q dns.Question, r *dns.Msg) question {
	opt := r.IsEdns0()
	return question{of: of, name: strings.ToLower(q.Name), qtype: q.Qtype, dnssec: opt != nil && opt.Do(), unchecked: r.CheckingDisabled}
}
