package audit

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/server/options"
)

// SetDefaults has a webhook that stands still take a bounded part of memory. Upstream sends ten batches of 400 events a second, each for as
// long as it takes and with whole objects; here one is sent after the other, events beyond the buffer are dropped and counted, and those of
// more than --audit-webhook-truncate-max-event-size have no objects.
func SetDefaults(o *options.AuditOptions) {
	o.WebhookOptions.BatchOptions.BatchConfig.AsyncDelegate = false
	o.WebhookOptions.TruncateOptions.Enabled = true
}

// maxText is how many bytes events have of a text that clients choose, of which each may be as long as the headers of a request.
const maxText = 4 << 10

// Shortened returns a backend that gets short texts and no tokens, whatever the level of a policy, nil for none. It must come before the truncation of large events, which drops those
// that are still large without their objects: nobody is to hide by a long URL.
func Shortened(b audit.Backend) audit.Backend {
	if b == nil {
		return nil
	}
	return shortened{b}
}

type shortened struct{ audit.Backend }

// ProcessEvents implements audit.Backend. Events are the audit's own, so that they are shortened where they are.
func (s shortened) ProcessEvents(events ...*auditapi.Event) bool {
	for _, e := range events {
		shorten(&e.RequestURI, &e.UserAgent)
		if ref := e.ObjectRef; ref != nil {
			shorten(&ref.Resource, &ref.Namespace, &ref.Name, &ref.APIGroup, &ref.APIVersion, &ref.Subresource)
			if hasToken(ref) {
				e.RequestObject, e.ResponseObject = nil, nil
			}
		}
		if status := e.ResponseStatus; status != nil {
			shorten(&status.Message)
		}
	}
	return s.Backend.ProcessEvents(events...)
}

// hasToken reports whether what is sent or answered has a token that is good for its time: reviews of those of others, and new ones.
func hasToken(ref *auditapi.ObjectReference) bool {
	return ref.APIGroup == authenticationv1.GroupName && ref.Resource == "tokenreviews" || ref.APIGroup == "" && ref.Resource == "serviceaccounts" && ref.Subresource == "token"
}

func shorten(texts ...*string) {
	for _, text := range texts {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "") + "..." // a copy, so that the whole is not kept
		}
	}
}
