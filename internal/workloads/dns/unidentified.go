package dns

import (
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/workloads/canary"
)

// logUnidentified is how often it is logged that clients are not identified.
const logUnidentified = time.Minute

// unidentified counts questions of unidentified clients.
type unidentified struct {
	mu    sync.Mutex
	n     int
	nodes int
	next  time.Time
}

// note counts a question, and logs now and then that there are such. A network that hides the addresses of pods behind
// those of nodes is the worst case: then nobody gets an answer.
func (u *unidentified) note(address netip.Addr, isNode bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
	if isNode {
		u.nodes++
	}
	now := time.Now()
	if now.Before(u.next) {
		return
	}
	why := "the address is not that of exactly one live pod of a space"
	if u.nodes > 0 {
		why = "addresses of nodes ask: if pods of spaces have no answers, the network of the host hides their addresses (masquerade) on the way to Services, and it cannot be known which tenant asks. " +
			"Have it leave the addresses of pods as they are"
	}
	klog.ErrorS(nil, "Questions of unidentified clients are not answered", "why", why, "last", address, "questions", u.n, "ofNodes", u.nodes)
	u.n, u.nodes, u.next = 0, 0, now.Add(logUnidentified)
}

// saysAddress answers a question for canary.ClientName, and reports whether it is one. Pods of the syncer find out by
// it whether the network of the host hides addresses.
func (s *server) saysAddress(m *dns.Msg, q dns.Question, address netip.Addr) bool {
	if dns.CanonicalName(q.Name) != canary.ClientName {
		return false
	}
	m.Authoritative = true
	if q.Qtype == dns.TypeTXT {
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{address.String()}}}
	}
	return true
}
