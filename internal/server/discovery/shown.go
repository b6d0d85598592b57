package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/version"
)

// shownOf returns the definitions that a space sees, of its own server first.
func shownOf(servers []Server) (shown []*apiextensionsv1.CustomResourceDefinition) {
	for _, server := range servers {
		definitions := slices.DeleteFunc(server.Definitions(), func(d *apiextensionsv1.CustomResourceDefinition) bool {
			return !apihelpers.IsCRDConditionTrue(d, apiextensionsv1.Established) ||
				!server.Serves(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}, false)
		})
		slices.SortFunc(definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
		shown = append(shown, definitions...)
	}
	return shown
}

// builtBy is what makes documents: those of another version may be others.
var builtBy = sync.OnceValue(version.Get)

// tagOf returns what tells whether documents of definitions have changed.
func tagOf(definitions []*apiextensionsv1.CustomResourceDefinition) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%+v\n", builtBy())
	for _, d := range definitions {
		_, _ = fmt.Fprintf(hash, "%s %d\n", d.UID, d.Generation)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// servedBytesV2 and servedBytesV3 are what the paths of a version that is served take in documents, however small it
// is.
const (
	servedBytesV2 = 256 << 10
	servedBytesV3 = 600 << 10
)

// servedBy returns how many versions definitions serve.
func servedBy(definitions []*apiextensionsv1.CustomResourceDefinition) (served int64) {
	for _, d := range definitions {
		for _, v := range d.Spec.Versions {
			if v.Served {
				served++
			}
		}
	}
	return served
}

// bytesOf returns what memory the schemas of definitions take in documents, as estimated: as much as these.
func bytesOf(definitions []*apiextensionsv1.CustomResourceDefinition) (bytes int64) {
	for _, d := range definitions {
		bytes += int64(memory.Of(d))
	}
	return bytes
}

// servedIn returns the definitions that serve a version.
func servedIn(gv schema.GroupVersion, definitions []*apiextensionsv1.CustomResourceDefinition) (in []*apiextensionsv1.CustomResourceDefinition) {
	for _, d := range definitions {
		if d.Spec.Group == gv.Group && slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Name == gv.Version }) {
			in = append(in, d)
		}
	}
	return in
}

// buildOptions are those of upstream's servers of definitions.
func buildOptions(v2 bool) builder.Options {
	return builder.Options{V2: v2, IncludeSelectableFields: utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CustomResourceFieldSelectors)}
}
