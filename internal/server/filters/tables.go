package filters

import (
	"net/http"
	"slices"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// WithTables tells storage which lists and watches in spaces of tenants may become tables: it
// bounds what upstream makes in memory as a whole. What is deleted of a collection cannot be read in
// pages, so it becomes no table.
func WithTables(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, ok := request.RequestInfoFrom(ctx)
		n, err := tenant.SpaceFrom(ctx)
		if !ok || err != nil || !n.IsSpace() {
			handler.ServeHTTP(w, req)
			return
		}
		if info.Verb == "list" && slices.Contains(metricsGroups, info.APIGroup) {
			handler.ServeHTTP(w, req.WithContext(storage.WithMetrics(ctx)))
			return
		}
		if !asksTable(req) {
			handler.ServeHTTP(w, req)
			return
		}
		switch info.Verb {
		case "list", "watch":
			whole := req.URL.Query().Get("includeObject") == string(metav1.IncludeObject)
			req = req.WithContext(storage.WithTable(ctx, whole))
		case "deletecollection":
			req = withoutTables(req)
		}
		handler.ServeHTTP(w, req)
	})
}

// metricsGroups are those that the controller of autoscalers reads.
var metricsGroups = []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}

// withoutTables returns a request that accepts what it does, but not as tables.
func withoutTables(req *http.Request) *http.Request {
	clauses := goautoneg.ParseAccept(req.Header.Get("Accept"))
	for i := range clauses {
		if isTable(clauses[i]) {
			clauses[i].Params = nil
		}
	}
	return accepting(req, clauses)
}

// asksTable reports whether upstream may answer with a table. The header is read by the code that
// upstream reads it with. Which of its clauses upstream takes depends on the resource.
func asksTable(req *http.Request) bool {
	return slices.ContainsFunc(goautoneg.ParseAccept(req.Header.Get("Accept")), isTable)
}

func isTable(clause goautoneg.Accept) bool { return clause.Params["as"] == "Table" }
