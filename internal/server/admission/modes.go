package admission

import (
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/kubernetes/plugin/pkg/admission/admit"
	"k8s.io/kubernetes/plugin/pkg/admission/alwayspullimages"
	"k8s.io/kubernetes/plugin/pkg/admission/antiaffinity"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubjectrestriction "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/deny"
	"k8s.io/kubernetes/plugin/pkg/admission/eventratelimit"
	"k8s.io/kubernetes/plugin/pkg/admission/extendedresourcetoleration"
	"k8s.io/kubernetes/plugin/pkg/admission/gc"
	"k8s.io/kubernetes/plugin/pkg/admission/imagepolicy"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/autoprovision"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/exists"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/network/denyserviceexternalips"
	"k8s.io/kubernetes/plugin/pkg/admission/nodedeclaredfeatures"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	"k8s.io/kubernetes/plugin/pkg/admission/podnodeselector"
	"k8s.io/kubernetes/plugin/pkg/admission/podresize"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	podpriority "k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/scheduling/podgroupprotection"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"

	"github.com/tenantry/tenantry/internal/server/admission/published"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
)

// mode is how a plugin serves every space.
type mode int

const (
	// unchanged: the plugin reads no object of a space, or nodes only, which
	// are the same for all.
	unchanged mode = iota
	// flattened: one instance joins namespaces with the objects in them, by
	// flattened names.
	flattened
	// perSpace: the plugin joins on cluster-scoped objects, and has no state and no
	// goroutines. A space in use has an instance with a view of the space.
	perSpace
	// onDemand: the plugin runs what objects of the space configure. A space has an
	// instance as long as it has such objects.
	onDemand
)

// modes of all plugins. A server does not start with a plugin that is not here: somebody
// has to find out first what the plugin joins on.
var modes = map[string]mode{
	spacepolicy.PluginName: unchanged,
	published.PluginName:   unchanged,

	admit.PluginName:                        unchanged,
	autoprovision.PluginName:                flattened,
	lifecycle.PluginName:                    flattened,
	exists.PluginName:                       flattened,
	antiaffinity.PluginName:                 unchanged,
	limitranger.PluginName:                  flattened,
	serviceaccount.PluginName:               flattened,
	noderestriction.PluginName:              flattened,
	nodetaint.PluginName:                    unchanged,
	alwayspullimages.PluginName:             unchanged,
	imagepolicy.PluginName:                  unchanged,
	podsecurity.PluginName:                  flattened,
	podnodeselector.PluginName:              flattened,
	podpriority.PluginName:                  perSpace,
	defaulttolerationseconds.PluginName:     unchanged,
	podtolerationrestriction.PluginName:     flattened,
	eventratelimit.PluginName:               flattened,
	extendedresourcetoleration.PluginName:   unchanged,
	setdefault.PluginName:                   perSpace,
	storageobjectinuseprotection.PluginName: unchanged,
	podgroupprotection.PluginName:           unchanged,
	gc.PluginName:                           perSpace,
	resize.PluginName:                       perSpace,
	runtimeclass.PluginName:                 perSpace,
	certapproval.PluginName:                 unchanged,
	certsigning.PluginName:                  unchanged,
	ctbattest.PluginName:                    unchanged,
	certsubjectrestriction.PluginName:       unchanged,
	defaultingressclass.PluginName:          perSpace,
	denyserviceexternalips.PluginName:       unchanged,
	podtopologylabels.PluginName:            unchanged,
	nodedeclaredfeatures.PluginName:         unchanged,
	podresize.PluginName:                    unchanged,
	mutatingpolicy.PluginName:               onDemand,
	mutatingwebhook.PluginName:              onDemand,
	validatingpolicy.PluginName:             onDemand,
	validatingwebhook.PluginName:            onDemand,
	resourcequota.PluginName:                flattened,
	deny.PluginName:                         unchanged,
}
