package authorization

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	pvutil "k8s.io/kubernetes/pkg/api/v1/persistentvolume"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/tenantry/tenantry/internal/tenant"
)

// nodeAuthorizer is upstream's, with a graph of the flattened view: objects that are
// related in the graph belong to one space. Nodes are users of the system tenant.
type nodeAuthorizer struct {
	upstream   *node.NodeAuthorizer
	identifier nodeidentifier.NodeIdentifier
}

// newNodeAuthorizer returns an authorizer that knows the pods of all spaces from
// views, a factory of the flattened view.
func newNodeAuthorizer(views informers.SharedInformerFactory) *nodeAuthorizer {
	var slices resourceinformers.ResourceSliceInformer
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		slices = views.Resource().V1().ResourceSlices()
	}
	var certificateRequests certificatesinformers.PodCertificateRequestInformer
	if utilfeature.DefaultFeatureGate.Enabled(features.PodCertificateRequest) {
		certificateRequests = views.Certificates().V1().PodCertificateRequests()
	}
	node.RegisterMetrics()
	graph := node.NewGraph()
	node.AddGraphEventHandlers(graph, views.Core().V1().Nodes(), views.Core().V1().Pods(),
		flatVolumes{views.Core().V1().PersistentVolumes()}, views.Storage().V1().VolumeAttachments(), slices, certificateRequests)
	identifier := nodeidentifier.NewDefaultNodeIdentifier()
	return &nodeAuthorizer{
		upstream:   node.NewAuthorizer(graph, identifier, bootstrappolicy.NodeRules()),
		identifier: identifier,
	}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (n *nodeAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if _, isNode := n.identifier.NodeIdentity(a.GetUser()); !isNode {
		return authorizer.DecisionNoOpinion, "", nil
	}
	userTenant, err := tenant.UserTenant(ctx)
	if err != nil || userTenant != tenant.System {
		return authorizer.DecisionNoOpinion, "", err
	}
	in, err := tenant.ScopeFrom(ctx)
	space, one := in.Space()
	switch {
	case err != nil:
		return authorizer.DecisionNoOpinion, "", err
	case space == tenant.System && isFlat(a.GetNamespace()+a.GetName()):
		return authorizer.DecisionNoOpinion, "", nil // only the graph has such names
	case space == tenant.System:
		return n.upstream.Authorize(ctx, a)
	case !one:
		return authorizer.DecisionNoOpinion, "", nil
	default:
		return n.authorizeInSpace(ctx, space, a)
	}
}

// isFlat reports whether a name is a flattened name of a tenant's space.
func isFlat(name string) bool { return tenant.Flat(name).Space() != tenant.System }

// nodeRulesInSpace are the rights of every node in every space: requests that nodes
// need to run pods and that are not about one pod.
var nodeRulesInSpace = []rbacv1.PolicyRule{
	{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"services"}},
	{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}},
	{Verbs: []string{"create", "update", "patch"}, APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}},
}

// authorizeInSpace lets a node read the objects that the pods bound to it need. It refuses
// resources that do not exist for nodes in a tenant's space: nodes, leases, mirror pods,
// reviews.
func (n *nodeAuthorizer) authorizeInSpace(ctx context.Context, space tenant.Name, a authorizer.Attributes) (authorizer.Decision, string, error) {
	flat := flatAttributes{a, space}
	switch a.GetAPIGroup() + "/" + a.GetResource() {
	case "/secrets", "/configmaps", "/persistentvolumeclaims", "/persistentvolumes", "/serviceaccounts",
		"resource.k8s.io/resourceclaims", "storage.k8s.io/volumeattachments":
		return n.upstream.Authorize(ctx, flat)
	case "/pods":
		if writesPod(a) {
			// Upstream leaves it to admission whether the pod is on the node.
			return n.upstream.Authorize(ctx, podOf{flat})
		}
		if a.GetVerb() == "create" {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return n.upstream.Authorize(ctx, flat)
	}
	if a.IsResourceRequest() && rbac.RulesAllow(a, nodeRulesInSpace...) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func writesPod(a authorizer.Attributes) bool {
	switch a.GetSubresource() {
	case "":
		return a.GetVerb() == "delete"
	case "status":
		return a.GetVerb() == "update" || a.GetVerb() == "patch"
	case "eviction":
		return a.GetVerb() == "create"
	default:
		return false
	}
}

// RulesFor implements authorizer.RuleResolver.
func (n *nodeAuthorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if userTenant, err := tenant.UserTenant(ctx); err != nil || userTenant != tenant.System {
		return nil, nil, false, err
	}
	return n.upstream.RulesFor(ctx, u, namespace)
}

// flatAttributes are the attributes of a request in a space with flattened names.
type flatAttributes struct {
	authorizer.Attributes
	space tenant.Name
}

// GetNamespace returns the flattened namespace.
func (a flatAttributes) GetNamespace() string {
	return tenant.Flatten(a.space, a.Attributes.GetNamespace()).String()
}

// GetName returns the name, which is flattened if it has no namespace.
func (a flatAttributes) GetName() string {
	if a.Attributes.GetNamespace() != "" {
		return a.Attributes.GetName()
	}
	return tenant.Flatten(a.space, a.Attributes.GetName()).String()
}

// podOf replaces a write of a pod by a read, which upstream allows to the node that
// runs the pod.
type podOf struct{ flatAttributes }

// GetVerb returns "get".
func (podOf) GetVerb() string { return "get" }

// GetSubresource returns none.
func (podOf) GetSubresource() string { return "" }

// flatVolumes is the informer of volumes with flattened references, because the view only
// flattens the names of objects.
type flatVolumes struct {
	coreinformers.PersistentVolumeInformer
}

// Informer returns the shared informer.
func (v flatVolumes) Informer() cache.SharedIndexInformer {
	return flatVolumeInformer{v.PersistentVolumeInformer.Informer()}
}

type flatVolumeInformer struct{ cache.SharedIndexInformer }

// AddEventHandler implements cache.SharedInformer.
func (i flatVolumeInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { handler.OnAdd(flatVolume(obj), initial) },
		UpdateFunc: func(old, obj any) { handler.OnUpdate(flatVolume(old), flatVolume(obj)) },
		DeleteFunc: handler.OnDelete, // uses the name only
	})
}

// flatVolume returns the fields of a volume that the graph reads: the claim, and
// the secrets with which nodes mount the volume.
func flatVolume(obj any) any {
	volume, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return obj
	}
	space := tenant.Flat(volume.Name).Space()
	if space == tenant.System {
		return volume
	}
	flat := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume.Name, UID: volume.UID}}
	if claim := volume.Spec.ClaimRef; claim != nil {
		flat.Spec.ClaimRef = &corev1.ObjectReference{Namespace: tenant.Flatten(space, claim.Namespace).String(), Name: claim.Name, UID: claim.UID}
	}
	var secrets []*corev1.SecretReference
	pvutil.VisitPVSecretNames(volume, func(namespace, name string, mounts bool) bool {
		if mounts && namespace != "" {
			secrets = append(secrets, &corev1.SecretReference{Namespace: tenant.Flatten(space, namespace).String(), Name: name})
		}
		return true
	})
	if len(secrets) > 0 {
		source := &corev1.CSIPersistentVolumeSource{}
		for i, into := range []**corev1.SecretReference{&source.NodePublishSecretRef, &source.NodeStageSecretRef, &source.NodeExpandSecretRef} {
			if i < len(secrets) {
				*into = secrets[i]
			}
		}
		flat.Spec.CSI = source
	}
	return flat
}
