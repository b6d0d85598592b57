package dns

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/workloads/network"
)

const (
	// defaultPatience is how long a question waits until its client is identified: a pod may ask before the host has
	// told of its address, and before it has told that another one has it no longer.
	defaultPatience = 2 * time.Second
	// maxWaiting is how many questions wait for that.
	maxWaiting = 1024
	// answerTimeout is how long a question may wait until it is looked at. Clients ask again after five seconds.
	answerTimeout = 4500 * time.Millisecond
	// mostByUDP is how many records are of use by UDP: more than fit.
	mostByUDP = 100
	// mostByTCP is how many records are of use by TCP: about as many as fit.
	mostByTCP = 4000
	// maxAliases is how many names an answer passes through.
	maxAliases = 8
)

// server answers questions.
type server struct {
	host *directory
	// domains are those in which names are of the space of who asks. The first one is that of spaces, another one that
	// of the host if it is another one.
	domains []string
	// inside are the addresses of which no upstream is asked whose they are.
	inside  network.Ranges
	ttl     uint32
	forward *forwarder
	rates   *rates
	// patience is how long a question waits until its client is identified.
	patience time.Duration
	// waiting has the questions that wait for that, by their addresses.
	waiting queue[netip.Addr]
	// processors has tenants take turns at the processors.
	processors *turns[tenantID]
	// trustsIPv6 is whether an address of IPv6 is that of who sends, also by UDP.
	trustsIPv6   bool
	unidentified unidentified
	panics       rate.Sometimes
}

// newProcessors returns twice as many turns as there are CPUs. A tenant has at most a quarter of them, which is half of
// the CPUs, or the only one.
func newProcessors() *turns[tenantID] {
	n := runtime.GOMAXPROCS(0)
	return newTurns[tenantID](2*n, max(1, n/2), maxQueued)
}

// ServeDNS implements dns.Handler.
func (s *server) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	defer s.recovered()
	began := time.Now()
	packed, kind := s.reply(w, r)
	if packed == nil {
		return
	}
	if _, err := w.Write(packed); err != nil {
		klog.V(4).InfoS("Answering a question failed", "err", err)
	}
	observe(kind, began)
}

// recovered notes a panic: one question must not end the answers to all, and many must not fill the log.
func (s *server) recovered() {
	if r := recover(); r != nil {
		s.panics.Do(func() {
			klog.ErrorS(nil, "Answering a question panicked; no more of this is said for a minute", "panic", r, "stack", string(debug.Stack()))
		})
	}
}

// pack returns an answer as it is sent, so large at most as the client reads it.
func pack(m, r *dns.Msg, tcp bool) []byte {
	fit(m, sizeOf(r, tcp))
	packed, err := m.Pack()
	if err != nil {
		klog.V(4).InfoS("Answering a question failed", "err", err)
		return nil
	}
	return packed
}

// fit makes an answer so large at most, in bytes. What is beside the records goes first, and is not missed.
func fit(reply *dns.Msg, size int) {
	if reply.Compress = true; reply.Len() > size {
		reply.Extra = slices.DeleteFunc(reply.Extra, func(record dns.RR) bool { return record.Header().Rrtype != dns.TypeOPT })
	}
	reply.Truncate(size)
}

// sizeOf returns how large an answer may be.
func sizeOf(r *dns.Msg, tcp bool) int {
	opt := r.IsEdns0()
	switch {
	case tcp:
		return dns.MaxMsgSize
	case opt == nil:
		return dns.MinMsgSize
	default:
		return min(int(opt.UDPSize()), udpSize)
	}
}

// reply returns the packed answer and its kind.
func (s *server) reply(w dns.ResponseWriter, r *dns.Msg) ([]byte, string) {
	m := new(dns.Msg)
	m.SetReply(r)
	m.RecursionAvailable = true
	opt := r.IsEdns0()
	if opt != nil {
		m.SetEdns0(udpSize, opt.Do())
	}
	address, tcp := addressOf(w.RemoteAddr())
	if refuses(m, r, opt) {
		return pack(m, r, tcp), kindRejected
	}
	if s.saysAddress(m, r.Question[0], address) {
		return pack(m, r, tcp), kindSpace
	}
	if !s.trusts(address, tcp) {
		m.Truncated = true // then it is asked by TCP
		return pack(m, r, tcp), kindRejected
	}
	asks, ok := s.whoAsks(address)
	if !ok {
		s.unidentified.note(address, s.host.isNode(address))
		m.Rcode = dns.RcodeServerFailure
		return pack(m, r, tcp), kindUnknown
	}
	return s.answer(m, r, idOf(asks), tcp)
}

// refuses reports whether a question is what nobody is answered, and notes why in the answer.
func refuses(m, r *dns.Msg, opt *dns.OPT) bool {
	if len(r.Question) != 1 { // one that is announced may be missing
		m.Rcode = dns.RcodeFormatError
		return true
	}
	q := r.Question[0]
	switch {
	case opt != nil && opt.Version() != 0:
		m.Rcode = dns.RcodeBadVers
	case r.Opcode != dns.OpcodeQuery || q.Qtype >= 128 && q.Qtype <= dns.TypeANY || q.Qtype == dns.TypeOPT:
		m.Rcode = dns.RcodeNotImplemented // transfers, and all records at once
	case q.Qclass != dns.ClassINET:
		m.Rcode = dns.RcodeRefused
	default:
		return false
	}
	return true
}

// trusts reports whether an address is that of who sends, which it need not be by UDP over IPv6
// (docs/guides/workloads-network.md#ipv6). By TCP, who sends in another's name gets no answer, and has no connection.
func (s *server) trusts(address netip.Addr, tcp bool) bool {
	return tcp || !address.Is6() || s.trustsIPv6
}

// addressOf returns the address of a client, and whether it is connected by TCP.
func addressOf(remote net.Addr) (address netip.Addr, tcp bool) {
	switch remote := remote.(type) {
	case *net.UDPAddr:
		return remote.AddrPort().Addr().Unmap(), false
	case *net.TCPAddr:
		return remote.AddrPort().Addr().Unmap(), true
	default:
		return netip.Addr{}, false
	}
}

// whoAsks returns the space's namespace of a client. While it is not known yet, it waits.
func (s *server) whoAsks(address netip.Addr) (spaceNamespace, bool) {
	if n, ok := s.host.clientAt(address); ok {
		return n, true
	}
	lost := s.waiting.wait(address)
	defer s.waiting.leave(address, lost)
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	for {
		changed := s.host.changed.Next()
		if n, ok := s.host.clientAt(address); ok {
			return n, true
		}
		select {
		case <-changed:
		case <-lost:
			return spaceNamespace{}, false
		case <-timer.C:
			return spaceNamespace{}, false
		}
	}
}

// answer writes the answer for a tenant's pod into m, and returns it packed, with its kind. A rate counts questions,
// and not what they cost: so tenants take turns at the processors, but not while upstreams are asked.
func (s *server) answer(m, r *dns.Msg, of tenantID, tcp bool) (packed []byte, kind string) {
	outside := ""
	err := s.inTurn(of, func() {
		if kind, outside = s.resolve(m, r, of, tcp); outside == "" {
			packed = pack(m, r, tcp)
		}
	})
	if err == nil && outside != "" {
		kind = s.resolveOutside(m, r, of, outside, tcp)
		err = s.inTurn(of, func() { packed = pack(m, r, tcp) })
	}
	if err != nil {
		m.Answer, m.Ns, m.Rcode = nil, nil, dns.RcodeServerFailure
		return pack(m, r, tcp), kindOf(err)
	}
	return packed, kind
}

// inTurn does something when it is a tenant's turn. Its error is errBusy.
func (s *server) inTurn(of tenantID, do func()) error {
	end, ok := s.processors.try(of)
	if !ok {
		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		var err error
		if end, err = s.processors.begin(ctx, of); err != nil {
			return err
		}
	}
	defer end()
	do()
	return nil
}

// resolve puts what there is of a question into a message, and returns of which kind that is, or the name outside that
// upstreams are to be asked about.
func (s *server) resolve(m, r *dns.Msg, of tenantID, tcp bool) (kind, outside string) {
	q := r.Question[0]
	name := q.Name
	kind = kindSpace
	for range maxAliases {
		a, zone, ok := s.look(of, dns.Question{Name: name, Qtype: q.Qtype, Qclass: q.Qclass}, tcp)
		if !ok {
			return "", name
		}
		m.Authoritative = true
		m.Answer, m.Truncated = append(m.Answer, a.records...), a.cut && !tcp
		m.Extra = append(a.extra, m.Extra...) // options are last
		if a.alias == "" {
			if !a.exists {
				m.Rcode, kind = dns.RcodeNameError, kindNone
			} else if len(a.records) == 0 {
				kind = kindNone
			}
			if len(a.records) == 0 {
				m.Ns = []dns.RR{authority(zone, s.ttl)}
			}
			return kind, ""
		}
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: s.ttl}, Target: a.alias})
		if q.Qtype == dns.TypeCNAME {
			return kind, ""
		}
		name = a.alias
	}
	m.Answer, m.Rcode = nil, dns.RcodeServerFailure // names that stand for each other
	return kindFailed, ""
}

// look looks for a name that no upstream is to be asked about, in a zone. It reports whether that is one.
func (s *server) look(of tenantID, q dns.Question, tcp bool) (a answer, zone string, ok bool) {
	l := lookup{host: s.host, of: of, name: q.Name, qtype: q.Qtype, ttl: s.ttl, most: mostByUDP}
	if tcp {
		l.most = mostByTCP
	}
	for _, l.zone = range s.domains {
		if dns.IsSubDomain(l.zone, q.Name) {
			return l.answer(), l.zone, true
		}
	}
	if dns.IsSubDomain("localhost.", q.Name) {
		a := answer{exists: true}
		for _, address := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
			l.add(&a, address)
		}
		return a, "localhost.", true
	}
	address, ok := reversed(q.Name)
	if !ok {
		return answer{}, "", false
	}
	a = l.pointers(address)
	return a, q.Name, a.exists || s.inside.Contains(address)
}

// isInside reports whether a name is none that upstreams may tell of.
func (s *server) isInside(name string) bool {
	return slices.ContainsFunc(append([]string{"localhost."}, s.domains...), func(zone string) bool { return dns.IsSubDomain(zone, name) })
}

// resolveOutside adds what upstreams say of a name to a message.
func (s *server) resolveOutside(m, r *dns.Msg, of tenantID, name string, tcp bool) string {
	q := r.Question[0]
	if !r.RecursionDesired {
		if len(m.Answer) > 0 {
			return kindSpace // for which other name it stands
		}
		m.Rcode = dns.RcodeRefused
		return kindRejected
	}
	asked := questionOf(of, dns.Question{Name: name, Qtype: q.Qtype}, r)
	outside, cached, err := s.forward.ask(context.Background(), asked, name, tcp)
	if err != nil {
		klog.V(2).InfoS("A name outside was not found out", "err", err)
		m.Answer, m.Rcode = nil, dns.RcodeServerFailure
		return kindOf(err)
	}
	for _, record := range outside.Answer {
		if h := record.Header(); strings.EqualFold(h.Name, name) {
			h.Name = name // as the client has written it
		}
	}
	m.Answer, m.Ns = append(m.Answer, outside.Answer...), outside.Ns
	m.Rcode, m.Truncated = outside.Rcode, outside.Truncated
	if cached {
		return kindCached
	}
	return kindOutside
}
