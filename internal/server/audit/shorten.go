package audit

import (
	"maps"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/text"
)

// SetDefaults has a webhook that stands still take a bounded part of memory. Upstream sends ten batches of 400 events a
// second, each for as long as it takes and with whole objects; here one is sent after the other, events beyond the
// buffer are dropped and counted, and those of more than --audit-webhook-truncate-max-event-size have no objects.
func SetDefaults(o *options.AuditOptions) {
	o.WebhookOptions.BatchOptions.BatchConfig.AsyncDelegate = false
	o.WebhookOptions.TruncateOptions.Enabled = true
}

// What events have of what clients choose, of which each may be as long as the headers of a request: so many bytes of a
// text, and so many texts of a list with fewer bytes each, as JSON has them. All together are less than an event may
// have without objects.
const (
	maxText      = 4 << 10
	maxName      = 512
	maxTexts     = 24
	maxListText  = 256
	maxAnnotated = 1 << 10
)

// Shortened returns a backend that gets short texts and no tokens, whatever the level of a policy, nil for none. It
// must come before the truncation of large events, which drops those that are still large without their objects: nobody
// is to hide by a long URL.
func Shortened(b audit.Backend) audit.Backend {
	if b == nil {
		return nil
	}
	return shortened{b}
}

type shortened struct{ audit.Backend }

// maxShutdown is how long a server that ends waits for a collector to take what it has not taken.
const maxShutdown = 10 * time.Second

// Shutdown implements audit.Backend. Upstream waits until each event that is left was tried several times, one batch
// after the other: for half an hour, if the collector does not answer.
func (s shortened) Shutdown() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Backend.Shutdown()
	}()
	select {
	case <-done:
	case <-time.After(maxShutdown):
		klog.InfoS("Ended without waiting for audit events to be taken; those that were not are lost", "waited", maxShutdown)
	}
}

// ProcessEvents implements audit.Backend. Events are the audit's own, so that they are shortened where they are.
func (s shortened) ProcessEvents(events ...*auditapi.Event) bool {
	for _, e := range events {
		shorten(maxText, &e.RequestURI, &e.UserAgent)
		e.SourceIPs = e.SourceIPs[max(0, len(e.SourceIPs)-maxTexts):] // proxies add theirs at the end
		e.SourceIPs = shortenList(e.SourceIPs)
		shortenUser(&e.User)
		if e.ImpersonatedUser != nil {
			shortenUser(e.ImpersonatedUser)
		}
		e.Annotations = shortenAnnotations(e.Annotations)
		if ref := e.ObjectRef; ref != nil {
			shorten(maxName, &ref.Resource, &ref.Namespace, &ref.Name, &ref.APIGroup, &ref.APIVersion, &ref.Subresource)
			if hasToken(ref) {
				e.RequestObject, e.ResponseObject = nil, nil
			}
		}
		if status := e.ResponseStatus; status != nil {
			shorten(maxText, &status.Message)
			status.Details = shortenDetails(status.Details)
		}
	}
	return s.Backend.ProcessEvents(events...)
}

// hasToken reports whether what is sent or answered has a token that is good for its time: reviews of those of others,
// and new ones.
func hasToken(ref *auditapi.ObjectReference) bool {
	return ref.APIGroup == authenticationv1.GroupName && ref.Resource == "tokenreviews" || ref.APIGroup == "" && ref.Resource == "serviceaccounts" && ref.Subresource == "token"
}

func shorten(most int, texts ...*string) {
	for _, text := range texts {
		*text = cut(*text, most)
	}
}

// cut returns a text as it is if it is short, and otherwise a copy of its beginning, so that the whole is not kept.
func cut(of string, most int) string {
	if short := text.CutJSON(of, most); len(short) < len(of) {
		return short + "..."
	}
	return of
}

// shortenList returns a list as it is if it is short.
func shortenList(list []string) []string {
	if len(list) <= maxTexts && !slices.ContainsFunc(list, func(text string) bool { return cut(text, maxListText) != text }) {
		return list
	}
	short := make([]string, 0, maxTexts)
	for _, text := range list[:min(len(list), maxTexts)] {
		short = append(short, cut(text, maxListText))
	}
	return short
}

// shortenDetails returns a copy, because the answer has the details as well.
func shortenDetails(of *metav1.StatusDetails) *metav1.StatusDetails {
	if of == nil {
		return nil
	}
	short := *of
	short.UID = types.UID(cut(string(of.UID), maxName))
	shorten(maxName, &short.Name, &short.Group, &short.Kind)
	short.Causes = slices.Clone(of.Causes[:min(len(of.Causes), maxTexts)])
	for i := range short.Causes {
		cause := &short.Causes[i]
		cause.Type = metav1.CauseType(cut(string(cause.Type), maxListText))
		shorten(maxListText, &cause.Message, &cause.Field)
	}
	return &short
}

func shortenUser(u *authenticationv1.UserInfo) {
	shorten(maxName, &u.Username, &u.UID)
	u.Groups = shortenList(u.Groups)
	left, changed := maxTexts, map[string]authenticationv1.ExtraValue{}
	for _, key := range slices.Sorted(maps.Keys(u.Extra)) {
		if left == 0 {
			break
		}
		values := shortenList(u.Extra[key])
		values = values[:min(len(values), left)]
		changed[cut(key, maxListText)], left = values, left-max(1, len(values))
	}
	if u.Extra != nil {
		u.Extra = changed
	}
}

// shortenAnnotations keeps those of the server, which are few, before those of webhooks, whose keys begin with the name
// of a configuration.
func shortenAnnotations(all map[string]string) map[string]string {
	if len(all) <= maxTexts && !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(text string) bool { return cut(text, maxAnnotated) != text }) {
		return all
	}
	short := make(map[string]string, maxTexts)
	has := sets.KeySet(all)
	keys := append(sets.List(has.Intersection(serversAnnotations)), sets.List(has.Difference(serversAnnotations))...)
	for _, key := range keys[:min(len(keys), maxTexts)] {
		short[cut(key, maxListText)] = cut(all[key], maxAnnotated)
	}
	return short
}

// serversAnnotations are those of the server by which events are found. They are known by the whole key: tenants choose
// the prefixes of others, which are the names of their webhooks and policies.
var serversAnnotations = sets.New(
	tenant.AuditTenant, tenant.AuditUserTenant, tenant.AuditUnavailable,
	"authorization.k8s.io/decision", "authorization.k8s.io/reason",
	"authentication.k8s.io/legacy-token", "authentication.k8s.io/legacy-token-autogenerated-secret", "authentication.k8s.io/legacy-token-invalidated",
	"authentication.k8s.io/legacy-token-manual-secret", "authentication.k8s.io/stale-token", "authentication.k8s.io/token-request-uid-mismatch",
	"authentication.kubernetes.io/issued-credential-id", "k8s.io/deprecated", "k8s.io/removed-release",
)
