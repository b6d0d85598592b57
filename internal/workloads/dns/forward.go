package dns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
)

const (
	// udpSize is how large, in bytes, messages by UDP are: what passes every network in one piece.
	udpSize = 1232
	// upstreamTimeout is how long one upstream may take to answer, and outsideTimeout how long all may, with the wait
	// for a turn. Clients ask again after five seconds.
	upstreamTimeout = 1500 * time.Millisecond
	outsideTimeout  = 4500 * time.Millisecond
	// attempts is how often upstreams are asked in all.
	attempts = 3
	// maxQueued is how many questions of all tenants wait for their turn.
	maxQueued = 4096
)

var (
	errNoUpstream = errors.New("there is no upstream for names outside")
	// errInside is that an answer from outside has records of names that are not outside.
	errInside = errors.New("an upstream has answered with names of a cluster")
)

// forwarder asks upstreams about names outside.
type forwarder struct {
	// upstreams are addresses with ports.
	upstreams []string
	turns     *turns[tenantID]
	budget    *ratelimit.Limits[tenantID]
	answers   *answers
	// isInside reports whether no upstream is to know of a name.
	isInside func(name string) bool
}

// ask asks about a name outside. By TCP, answers are complete. cached is whether it was remembered. The result is the
// caller's to change.
func (f *forwarder) ask(ctx context.Context, q question, name string, tcp bool) (answer *dns.Msg, cached bool, err error) {
	if m := f.answers.get(q); m != nil {
		return m, true, nil
	}
	if len(f.upstreams) == 0 {
		return nil, false, errNoUpstream
	}
	ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
	defer cancel()
	end, err := f.turns.begin(ctx, q.of)
	if err != nil {
		return nil, false, err
	}
	defer end()
	m, err := f.askAll(ctx, q.of, query(q, name), tcp)
	if err != nil {
		return nil, false, err
	}
	for _, record := range m.Answer {
		if f.isInside(record.Header().Name) {
			return nil, false, errInside
		}
	}
	f.answers.put(q, m)
	return m, false, nil
}

// query returns the message for upstreams, which says nothing of the client.
func query(q question, name string) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, q.qtype)
	m.CheckingDisabled = q.unchecked
	m.SetEdns0(udpSize, q.dnssec)
	return m
}

// askAll asks one upstream after the other until one knows. If none does, it returns what the last one has said. One
// that has said so is not asked again: it would say the same.
func (f *forwarder) askAll(ctx context.Context, of tenantID, m *dns.Msg, tcp bool) (*dns.Msg, error) {
	var last *dns.Msg
	var errs []error
	failed := map[string]bool{}
	first := rand.IntN(len(f.upstreams))
	for i := range attempts {
		upstream := f.upstreams[(first+i)%len(f.upstreams)]
		if failed[upstream] {
			continue
		}
		answer, err := f.exchange(ctx, of, m, upstream, tcp)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			errs = append(errs, err)
		case isFailure(answer.Rcode):
			last, failed[upstream] = answer, true
		default:
			return answer, nil
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, fmt.Errorf("asking upstreams: %w", errors.Join(errs...))
}

// isFailure reports whether a code says that an upstream does not know, where another one may.
func isFailure(rcode int) bool {
	return rcode == dns.RcodeServerFailure || rcode == dns.RcodeRefused || rcode == dns.RcodeNotImplemented || rcode == dns.RcodeFormatError
}

// exchange asks one upstream, by TCP as well if the answer is too large otherwise and it is asked for. The answer has
// what is asked for, and nothing beside that.
func (f *forwarder) exchange(ctx context.Context, of tenantID, m *dns.Msg, upstream string, tcp bool) (*dns.Msg, error) {
	answer, err := f.exchangeBy(ctx, of, "udp", m, upstream)
	if err == nil && answer.Truncated && tcp {
		answer, err = f.exchangeBy(ctx, of, "tcp", m, upstream)
	}
	if err != nil {
		return nil, err
	}
	asked := m.Question[0]
	if len(answer.Question) != 1 || !strings.EqualFold(answer.Question[0].Name, asked.Name) || answer.Question[0].Qtype != asked.Qtype || !answer.Response {
		return nil, fmt.Errorf("%s has answered another question", upstream)
	}
	var authority []dns.RR
	for _, record := range answer.Ns {
		if _, ok := record.(*dns.SOA); ok && len(answer.Answer) == 0 {
			authority = append(authority, record)
		}
	}
	answer.Ns, answer.Extra = authority, nil
	answer.Rcode &= 0xF
	return answer, nil
}

func (f *forwarder) exchangeBy(ctx context.Context, of tenantID, network string, m *dns.Msg, upstream string) (*dns.Msg, error) {
	if f.budget.Take(time.Now(), of, 1) > 0 {
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	m.Id = dns.Id() // and a port of its own, because of the new connection
	client := dns.Client{Net: network, UDPSize: udpSize, Timeout: upstreamTimeout}
	answer, _, err := client.ExchangeContext(ctx, m, upstream)
	return answer, err
}

// newBudget returns what upstreams are asked for each tenant, each attempt counted, so much a second after two and a
// half times as much: they take so much of a node, and drop what is beyond that, of everybody.
func newBudget(perSecond int) *ratelimit.Limits[tenantID] {
	return &ratelimit.Limits[tenantID]{PerSecond: rate.Limit(perSecond), AtOnce: perSecond*5/2 + 1}
}

// upstreamsOf returns the upstreams that somebody names, or those of a file such as /etc/resolv.conf if nobody does. Of
// such a file, loopback addresses are left out: in a pod, that is this server itself, or nobody.
func upstreamsOf(named []string, file string) ([]string, error) {
	var all []string
	for _, text := range named {
		address, err := netip.ParseAddrPort(text)
		if err != nil {
			var plain netip.Addr
			if plain, err = netip.ParseAddr(text); err == nil {
				address = netip.AddrPortFrom(plain, 53)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no address, such as 192.0.2.1 or 192.0.2.1:53", text)
		}
		if address.Addr().IsUnspecified() || address.Addr().IsMulticast() || address.Port() == 0 {
			return nil, fmt.Errorf("%q is where no server answers: name the address of one, and a port above 0", text)
		}
		all = append(all, address.String())
	}
	if len(named) > 0 {
		return all, nil
	}
	config, err := dns.ClientConfigFromFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	port, err := strconv.Atoi(config.Port)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	for _, text := range config.Servers {
		if address, err := netip.ParseAddr(text); err == nil && !address.IsLoopback() && !address.IsUnspecified() {
			all = append(all, net.JoinHostPort(text, strconv.Itoa(port)))
		}
	}
	return all, nil
}
