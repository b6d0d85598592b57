package operator

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// parse returns a ControlPlane with a spec in YAML.
func parse(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	cp := &unstructured.Unstructured{Object: map[string]any{}}
	var content any
	Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed())
	cp.Object["spec"] = content
	cp.SetAPIVersion(v1alpha1.GroupVersion.String())
	cp.SetKind("ControlPlane")
	cp.SetNamespace(namespace)
	cp.SetName(name)
	return cp
}

const (
	etcd       = `etcd: {endpoints: ["https://a:1"], secretName: s}`
	tenMembers = `"https://a:1", "https://a:2", "https://a:3", "https://a:4", "https://a:5", "https://a:6", "https://a:7", "https://a:8", "https://a:9", "https://a:10"`
)

// onEtcdWith returns etcd with another field.
func onEtcdWith(field string) string {
	return `etcd: {endpoints: ["https://a:1"], secretName: s, ` + field + `}`
}

var _ = Describe("The definition of ControlPlanes", func() {
	DescribeTable("refuses", func(ctx SpecContext, name, spec, field, message string) {
		err := admin.Create(ctx, parse(name, spec), client.DryRunAll)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(SatisfyAll(ContainSubstring(field), ContainSubstring(message)))
	},
		Entry("a name that begins with a digit", "1st", `{}`, "", "beginning with a letter"),
		Entry("a name that parts of another one have", "sample-syncer", `{}`, "", "must not end with '-manager', '-members' or '-syncer'"),
		Entry("a name with a dot", "a.b", `{}`, "", "at most 40 lower case letters"),
		Entry("a long name", strings.Repeat("a", 41), `{}`, "", "at most 40 lower case letters"),
		Entry("a name that ends with a dash", "a-", `{}`, "", "metadata.name"),
		Entry("a version without its v", "x", `{version: 0.1.0}`, "spec.version", "should match"),
		Entry("half a version", "x", `{version: v0.1}`, "spec.version", "should match"),
		Entry("a version with leading zeros", "x", `{version: v0.01.0}`, "spec.version", "should match"),
		Entry("a suffix of a version", "x", `{version: v0.1.0-rc.1}`, "spec.version", "should match"),
		Entry("no kind of storage", "x", `{storage: {}}`, "spec.storage", "name one kind of storage: embedded or etcd"),
		Entry("a small volume", "x", `{storage: {embedded: {size: 1023Mi}}}`, "spec.storage.embedded.size", "size must be 1Gi at least"),
		Entry("a negative volume", "x", `{storage: {embedded: {size: -10Gi}}}`, "spec.storage.embedded.size", "size must be 1Gi at least"),
		Entry("a volume of no size", "x", `{storage: {embedded: {size: large}}}`, "spec.storage.embedded.size", "should match"),
		Entry("a volume of a number", "x", `{storage: {embedded: {size: 10}}}`, "spec.storage.embedded.size", "size must be 1Gi at least"),
		Entry("a volume beyond all disks", "x", `{storage: {embedded: {size: 2Pi}}}`, "spec.storage.embedded.size", "size must be 1Pi at most"),
		Entry("a class without a name", "x", `{storage: {embedded: {storageClassName: ""}}}`, "spec.storage.embedded.storageClassName", "should be at least 1"),
		Entry("a class of no such name", "x", `{storage: {embedded: {storageClassName: Fast_Disks}}}`, "spec.storage.embedded.storageClassName", "must be the name of a StorageClass"),
		Entry("both kinds of storage", "x", `{storage: {embedded: {}, `+etcd+`}}`, "spec.storage", "name one kind of storage: embedded or etcd"),
		Entry("several servers with an embedded etcd", "x", `{replicas: 2}`, "spec", "several servers need storage.etcd"),
		Entry("no server", "x", `{replicas: 0, storage: {`+etcd+`}}`, "spec.replicas", "greater than or equal to 1"),
		Entry("17 servers", "x", `{replicas: 17, storage: {`+etcd+`}}`, "spec.replicas", "less than or equal to 16"),
		Entry("an etcd without members", "x", `{storage: {etcd: {secretName: s}}}`, "spec.storage.etcd.endpoints", "Required"),
		Entry("an etcd of no members", "x", `{storage: {etcd: {secretName: s, endpoints: []}}}`, "spec.storage.etcd.endpoints", "at least 1 items"),
		Entry("an etcd of ten members", "x", `{storage: {etcd: {secretName: s, endpoints: [`+tenMembers+`]}}}`, "spec.storage.etcd.endpoints", "must have at most 9 items"),
		Entry("a member twice", "x", `{storage: {etcd: {secretName: s, endpoints: ["https://a:1", "https://a:1"]}}}`, "spec.storage.etcd.endpoints", "Duplicate value"),
		Entry("an etcd without TLS", "x", `{storage: {etcd: {secretName: s, endpoints: ["http://a:2379"]}}}`, "spec.storage.etcd.endpoints", "must be https://HOST:PORT"),
		Entry("a member without a port", "x", `{storage: {etcd: {secretName: s, endpoints: ["https://a"]}}}`, "spec.storage.etcd.endpoints", "must be https://HOST:PORT"),
		Entry("a member of a port that cannot be", "x", `{storage: {etcd: {secretName: s, endpoints: ["https://a:70000"]}}}`, "spec.storage.etcd.endpoints", "must be https://HOST:PORT"),
		Entry("a member with a path", "x", `{storage: {etcd: {secretName: s, endpoints: ["https://a:1/b"]}}}`, "spec.storage.etcd.endpoints", "must be https://HOST:PORT"),
		Entry("two members in one", "x", `{storage: {etcd: {secretName: s, endpoints: ["https://a:1,https://b:1"]}}}`, "spec.storage.etcd.endpoints", "must be https://HOST:PORT"),
		Entry("a member with a user", "x", `{storage: {etcd: {secretName: s, endpoints: ["https://u@a:1"]}}}`, "spec.storage.etcd.endpoints", "must be https://HOST:PORT"),
		Entry("an etcd without a Secret", "x", `{storage: {etcd: {endpoints: ["https://a:1"]}}}`, "spec.storage.etcd.secretName", "Required"),
		Entry("an etcd with a Secret of no name", "x", `{storage: {etcd: {endpoints: ["https://a:1"], secretName: ""}}}`, "spec.storage.etcd.secretName", "must be the name of a Secret"),
		Entry("an etcd with a Secret elsewhere", "x", `{storage: {etcd: {endpoints: ["https://a:1"], secretName: other/s}}}`, "spec.storage.etcd.secretName", "must be the name of a Secret"),
		Entry("a prefix that is no path", "x", `{storage: {`+onEtcdWith(`prefix: a`)+`}}`, "spec.storage.etcd.prefix", "prefix must be a path"),
		Entry("a prefix of everything", "x", `{storage: {`+onEtcdWith(`prefix: /`)+`}}`, "spec.storage.etcd.prefix", "prefix must be a path"),
		Entry("a prefix with an end", "x", `{storage: {`+onEtcdWith(`prefix: /a/`)+`}}`, "spec.storage.etcd.prefix", "prefix must be a path"),
		Entry("a prefix that goes up", "x", `{storage: {`+onEtcdWith(`prefix: /a/../b`)+`}}`, "spec.storage.etcd.prefix", "prefix must be a path"),
		Entry("the prefix of what servers remember", "x", `{storage: {`+onEtcdWith(`prefix: /tenantry/a`)+`}}`, "spec.storage.etcd.prefix", "prefix must not be in /tenantry"),
		Entry("an etcd of a resource of ours", "x", `{storage: {`+onEtcdWith(`overrides: [{resource: users.tenantry.io, endpoints: ["https://a:1"]}]`)+`}}`, "spec.storage.etcd.overrides[0].resource", "must not be one of tenantry.io"),
		Entry("an etcd of a kind", "x", `{storage: {`+onEtcdWith(`overrides: [{resource: Event, endpoints: ["https://a:1"]}]`)+`}}`, "spec.storage.etcd.overrides[0].resource", "RESOURCE or RESOURCE.GROUP"),
		Entry("an etcd of a resource, of no members", "x", `{storage: {`+onEtcdWith(`overrides: [{resource: events, endpoints: []}]`)+`}}`, "spec.storage.etcd.overrides[0].endpoints", "at least 1 items"),
		Entry("an etcd of a resource without TLS", "x", `{storage: {`+onEtcdWith(`overrides: [{resource: events, endpoints: ["http://a:1"]}]`)+`}}`, "spec.storage.etcd.overrides[0].endpoints", "must be https://HOST:PORT"),
		Entry("a resource twice", "x", `{storage: {`+onEtcdWith(`overrides: [{resource: events, endpoints: ["https://a:1"]}, {resource: events, endpoints: ["https://b:1"]}]`)+`}}`, "spec.storage.etcd.overrides[1]", "Duplicate value"),
		Entry("another kind of Service", "x", `{expose: {type: ExternalName}}`, "spec.expose.type", "Unsupported value"),
		Entry("ports of nodes without a name", "x", `{expose: {type: NodePort}}`, "spec.expose", "type NodePort needs names"),
		Entry("ports of nodes with no name", "x", `{expose: {type: NodePort, names: []}}`, "spec.expose", "type NodePort needs names"),
		Entry("the address of all machines", "x", `{expose: {names: [0.0.0.0]}}`, "spec.expose.names", "the IP address of one machine"),
		Entry("the IPv6 address of all machines", "x", `{expose: {names: ["::"]}}`, "spec.expose.names", "the IP address of one machine"),
		Entry("half an address", "x", `{expose: {names: [10.0.0]}}`, "spec.expose.names", "must be a host name"),
		Entry("an address out of range", "x", `{expose: {names: [10.0.0.256]}}`, "spec.expose.names", "must be a host name"),
		Entry("a name in upper case", "x", `{expose: {names: [Example.com]}}`, "spec.expose.names", "must be a host name"),
		Entry("a name with a scheme", "x", `{expose: {names: ["https://example.com"]}}`, "spec.expose.names", "must be a host name"),
		Entry("a name with a port", "x", `{expose: {names: ["example.com:443"]}}`, "spec.expose.names", "must be a host name"),
		Entry("a wildcard", "x", `{expose: {names: ["*.example.com"]}}`, "spec.expose.names", "must be a host name"),
		Entry("an empty name", "x", `{expose: {names: [""]}}`, "spec.expose.names", "should be at least 1"),
		Entry("a name twice", "x", `{expose: {names: [a, a]}}`, "spec.expose.names", "Duplicate value"),
		Entry("33 names", "x", `{expose: {names: [`+strings.Repeat("a,", 32)+`a]}}`, "spec.expose.names", "must have at most 32 items"),
		Entry("tokens that end too early", "x", `{serviceAccounts: {maxTokenLifetime: 59m}}`, "spec.serviceAccounts.maxTokenLifetime", "maxTokenLifetime must be from 1h to 8760h"),
		Entry("tokens that end too late", "x", `{serviceAccounts: {maxTokenLifetime: 8761h}}`, "spec.serviceAccounts.maxTokenLifetime", "maxTokenLifetime must be from 1h to 8760h"),
		Entry("tokens of no time", "x", `{serviceAccounts: {maxTokenLifetime: a year}}`, "spec.serviceAccounts.maxTokenLifetime", "maxTokenLifetime must be from 1h to 8760h"),
		Entry("a rotation of two words", "x", `{serviceAccounts: {keyRotation: "a b"}}`, "spec.serviceAccounts.keyRotation", "should match"),
		Entry("a rotation with a long text", "x", `{serviceAccounts: {keyRotation: `+strings.Repeat("a", 64)+`}}`, "spec.serviceAccounts.keyRotation", "may not be more than 63"),
		Entry("an image of two words", "x", `{pod: {image: "a b"}}`, "spec.pod.image", "should match"),
		Entry("an image without a name", "x", `{pod: {image: ""}}`, "spec.pod.image", "should be at least 1"),
		Entry("a resource that is none of a server", "x", `{pod: {resources: {limits: {nvidia.com/gpu: 1}}}}`, "spec.pod.resources.limits", "limits are cpu, memory and ephemeral-storage"),
		Entry("a negative request", "x", `{pod: {resources: {requests: {cpu: -1}}}}`, "spec.pod.resources.requests", "and not negative"),
		Entry("a negative limit", "x", `{pod: {resources: {limits: {memory: -1Gi}}}}`, "spec.pod.resources.limits", "and not negative"),
		Entry("a configuration of nothing", "x", `{authentication: {configuration: {}}}`, "spec.authentication.configuration", "name one source: inline, configMapName or secretName"),
		Entry("a configuration without a source", "x", `{authorization: {}}`, "spec.authorization.configuration", "Required"),
		Entry("a configuration of two sources", "x", `{audit: {policy: {configMapName: a, secretName: b}}}`, "spec.audit.policy", "name one source"),
		Entry("a configuration inline and elsewhere", "x", `{audit: {policy: {inline: `+auditInline+`, secretName: b}}}`, "spec.audit.policy", "name one source"),
		Entry("a ConfigMap of no name", "x", `{admission: {configuration: {configMapName: A_b}}}`, "spec.admission.configuration.configMapName", "must be the name of a ConfigMap"),
		Entry("a Secret elsewhere", "x", `{manager: {configuration: {secretName: other/s}}}`, "spec.manager.configuration.secretName", "must be the name of a Secret"),
		Entry("authentication of another kind", "x", `{authentication: {configuration: {inline: `+auditInline+`}}}`, "spec.authentication.configuration", "inline must be an AuthenticationConfiguration"),
		Entry("authentication without a kind", "x", `{authentication: {configuration: {inline: {jwt: []}}}}`, "spec.authentication.configuration.inline.kind", "Required"),
		Entry("authorization of another kind", "x", `{authorization: {configuration: {inline: `+auditInline+`}}}`, "spec.authorization.configuration", "inline must be an AuthorizationConfiguration"),
		Entry("an audit policy of another kind", "x", `{audit: {policy: {inline: `+managerInline+`}}}`, "spec.audit.policy", "inline must be a Policy"),
		Entry("admission of another kind", "x", `{admission: {configuration: {inline: `+auditInline+`}}}`, "spec.admission.configuration", "inline must be an AdmissionConfiguration"),
		Entry("a manager of another kind", "x", `{manager: {configuration: {inline: `+auditInline+`}}}`, "spec.manager.configuration", "inline must be a ManagerConfiguration"),
		Entry("audit without a policy", "x", `{audit: {webhookSecretName: s}}`, "spec.audit.policy", "Required"),
		Entry("a webhook of no name", "x", `{audit: {policy: {configMapName: a}, webhookSecretName: "a b"}}`, "spec.audit.webhookSecretName", "must be the name of a Secret"),
		Entry("an issuer without TLS", "x", `{authentication: {configuration: {secretName: s}, systemIssuers: ["http://id.example.com"]}}`, "spec.authentication.systemIssuers", "must be the URL of an issuer"),
		Entry("two issuers in one", "x", `{authentication: {configuration: {secretName: s}, systemIssuers: ["https://a,https://b"]}}`, "spec.authentication.systemIssuers", "must be the URL of an issuer"),
		Entry("an issuer twice", "x", `{authentication: {configuration: {secretName: s}, systemIssuers: ["https://a", "https://a"]}}`, "spec.authentication.systemIssuers", "Duplicate value"),
		Entry("a burst of no rate", "x", `{limits: {rateLimit: {burst: 5}}}`, "spec.limits.rateLimit", "burst needs requestsPerSecond"),
		Entry("a burst of an unlimited rate", "x", `{limits: {rateLimit: {requestsPerSecond: 0, burst: 5}}}`, "spec.limits.rateLimit", "burst has no effect"),
		Entry("a burst beyond what servers take", "x", `{limits: {rateLimit: {requestsPerSecond: 1000000, burst: 1000001}}}`, "spec.limits.rateLimit", "burst must be 1000000 at most"),
		Entry("a negative rate", "x", `{limits: {rateLimit: {requestsPerSecond: -1}}}`, "spec.limits.rateLimit.requestsPerSecond", "greater than or equal to 0"),
		Entry("small bodies", "x", `{limits: {requestLimit: {bodyBytes: 1}}}`, "spec.limits.requestLimit.bodyBytes", "greater than or equal to 1024"),
		Entry("few bytes of watches", "x", `{limits: {tenantWatchBytes: 1024}}`, "spec.limits.tenantWatchBytes", "must be 0, no limit, or 33554432 at least"),
		Entry("a negative history", "x", `{limits: {watchCacheHistoryBytes: -1}}`, "spec.limits.watchCacheHistoryBytes", "greater than or equal to 0"),
		Entry("limits of labels without a mode for them", "x", `{tenantLimits: {nodePlacement: {mode: Enabled, allowedLabels: [a]}}}`, "spec.tenantLimits.nodePlacement", "need mode: Limited"),
		Entry("limits of another mode", "x", `{tenantLimits: {daemonSets: {mode: Allowed}}}`, "spec.tenantLimits.daemonSets.mode", "Unsupported value"),
		Entry("a least of audits above the most", "x", `{tenantLimits: {auditPolicy: {least: Request, most: Metadata}}}`, "spec.tenantLimits.auditPolicy", "least must not be more than most"),
		Entry("audits of another level", "x", `{tenantLimits: {auditPolicy: {least: All}}}`, "spec.tenantLimits.auditPolicy.least", "Unsupported value"),
		Entry("a negative limit of a quota", "x", `{tenantLimits: {quota: {pods: -1}}}`, "spec.tenantLimits.quota", "must not be negative"),
		Entry("a priority of the host's own", "x", `{pod: {priorityClassName: system-node-critical}}`, "spec.pod.priorityClassName", "must not be one of the host's own"),
		Entry("a priority of no name", "x", `{pod: {priorityClassName: A}}`, "spec.pod.priorityClassName", "must be the name of a PriorityClass"),
		Entry("a pull Secret of no name", "x", `{pod: {imagePullSecrets: [{name: a/b}]}}`, "spec.pod.imagePullSecrets[0].name", "must be the name of a Secret"),
		Entry("a pull Secret twice", "x", `{pod: {imagePullSecrets: [{name: a}, {name: a}]}}`, "spec.pod.imagePullSecrets[1]", "Duplicate value"),
		Entry("a proxy with a password", "x", `{pod: {proxy: {url: "http://u:p@proxy:3128"}}}`, "spec.pod.proxy.url", "without credentials"),
		Entry("a proxy of a port that cannot be", "x", `{pod: {proxy: {url: "http://proxy:65536"}}}`, "spec.pod.proxy.url", "must be http://HOST:PORT"),
		Entry("a proxy of no name", "x", `{pod: {proxy: {url: "http://a..b:80"}}}`, "spec.pod.proxy.url", "must be http://HOST:PORT"),
		Entry("a proxy without a port", "x", `{pod: {proxy: {url: "http://proxy"}}}`, "spec.pod.proxy.url", "must be http://HOST:PORT"),
		Entry("an address in place of a network", "x", `{tenantWebhooks: {deniedCIDRs: ["10.0.0.1"]}}`, "spec.tenantWebhooks.deniedCIDRs", "must be a network"),
		Entry("an address with the length of its network", "x", `{tenantWebhooks: {deniedCIDRs: ["10.0.0.1/8"]}}`, "spec.tenantWebhooks.deniedCIDRs", "without bits of an address"),
		Entry("a name in place of a network", "x", `{tenantWebhooks: {allowedCIDRs: [localhost]}}`, "spec.tenantWebhooks.allowedCIDRs", "must be a network"),
		Entry("another isolation", "x", `{workloads: {networkIsolation: {mode: None}}}`, "spec.workloads.networkIsolation.mode", "Unsupported value"),
		Entry("an address in place of the host's networks", "x", `{workloads: {networkIsolation: {clusterCIDRs: ["10.0.0.1"]}}}`, "spec.workloads.networkIsolation.clusterCIDRs", "must be a network"),
		Entry("two networks in one", "x", `{workloads: {networkIsolation: {allowedCIDRs: ["10.0.0.0/8,fd00::/8"]}}}`, "spec.workloads.networkIsolation.allowedCIDRs", "must be a network"),
		Entry("a network twice", "x", `{workloads: {networkIsolation: {allowedCIDRs: ["10.0.0.0/8", "10.0.0.0/8"]}}}`, "spec.workloads.networkIsolation.allowedCIDRs[1]", "Duplicate value"),
		Entry("other images", "x", `{workloads: {localImages: Always}}`, "spec.workloads.localImages", "Unsupported value"),
		Entry("a negative number of orphans", "x", `{workloads: {orphanLimit: -1}}`, "spec.workloads.orphanLimit", "greater than or equal to 0"),
		Entry("requests of the syncer beyond limits", "x", `{workloads: {resources: {requests: {cpu: 2}, limits: {cpu: 1}}}}`, "spec.workloads.resources", "requests must not be more than limits"),
		Entry("no proxy", "x", `{pod: {proxy: {noProxy: [a]}}}`, "spec.pod.proxy.url", "Required"),
		Entry("two direct names in one", "x", `{pod: {proxy: {url: "http://proxy:1", noProxy: ["a,b"]}}}`, "spec.pod.proxy.noProxy", "must be a host name"),
		Entry("requests of a manager beyond limits", "x", `{pod: {managerResources: {requests: {cpu: 2}, limits: {cpu: 1}}}}`, "spec.pod.managerResources", "requests must not be more than limits"),
		Entry("requests beyond limits", "x", `{pod: {resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}}`, "spec.pod.resources", "requests must not be more than limits"),
	)

	DescribeTable("takes", func(ctx SpecContext, name, spec string) {
		Expect(admin.Create(ctx, parse(name, spec), client.DryRunAll)).To(Succeed())
	},
		Entry("nothing", "x", `{}`),
		Entry("a long name", strings.Repeat("a", 40), `{}`),
		Entry("a version", "x", `{version: v10.0.3}`),
		Entry("a volume of 1Gi, in bytes", "x", `{storage: {embedded: {size: 1073741824, storageClassName: fast.disks}}}`),
		Entry("one server with an embedded etcd", "x", `{replicas: 1}`),
		Entry("several servers", "x", `{replicas: 16, storage: {`+etcd+`}}`),
		Entry("an etcd with all fields", "x", `{storage: {etcd: {endpoints: ["https://etcd-0.example.com:2379", "https://10.0.0.1:2379", "https://[fd00::1]:2379"], secretName: s.x,
			prefix: /a/b-c_d.e, overrides: [{resource: events, endpoints: ["https://a:1"]}, {resource: leases.coordination.k8s.io, endpoints: ["https://a:1"]}]}}}`),
		Entry("names and addresses", "x", `{expose: {type: NodePort, names: [tenantry.example.com, 10.0.0.1, "2001:db8::1"]}}`),
		Entry("an image by digest", "x", `{pod: {image: "mirror.example:5000/a/b@sha256:0123456789abcdef"}}`),
		Entry("pods that run on the host", "x", `{workloads: {}}`),
		Entry("pods that run, with all fields", "x", workloadsSpec),
		Entry("resources", "x", `{pod: {resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1024Mi}}}}`),
		Entry("networks of IPv6", "x", `{tenantWebhooks: {deniedCIDRs: ["FD00:0::/8", "::/0", "10.0.0.1/32"]}}`),
	)

	It("takes all of a configuration", func(ctx SpecContext) {
		Expect(admin.Create(ctx, parse("x", configuredSpec), client.DryRunAll)).To(Succeed())
	})

	It("fills in the defaults", func(ctx SpecContext) {
		cp := newControlPlane("x")
		Expect(admin.Create(ctx, cp, client.DryRunAll)).To(Succeed())
		Expect(cp.Spec.Storage.Embedded.Size.String()).To(Equal("10Gi"))
		Expect(cp.Spec.Expose.Type).To(Equal(v1alpha1.ExposeClusterIP))
	})

	DescribeTable("refuses to change", func(ctx SpecContext, before, after, field, message string) {
		other := &corev1.Namespace{}
		other.Name = "unwatched"
		Expect(client.IgnoreAlreadyExists(admin.Create(ctx, other))).To(Succeed())
		cp := parse("x", before)
		cp.SetNamespace(other.Name)
		Expect(admin.Create(ctx, cp)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, cp)).To(Succeed()) })
		cp.Object["spec"] = parse("x", after).Object["spec"]
		err := admin.Update(ctx, cp)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(SatisfyAll(ContainSubstring(field), ContainSubstring(message)))
	},
		Entry("the size", `{storage: {embedded: {size: 10Gi}}}`, `{storage: {embedded: {size: 20Gi}}}`, "spec.storage.embedded.size", "enlarge the volume by its claim"),
		Entry("the class", `{storage: {embedded: {storageClassName: a}}}`, `{storage: {embedded: {storageClassName: b}}}`, "spec.storage.embedded", "storageClassName cannot be changed"),
		Entry("the default class", `{}`, `{storage: {embedded: {storageClassName: b}}}`, "spec.storage.embedded", "storageClassName cannot be changed"),
		Entry("back to the default class", `{storage: {embedded: {storageClassName: a}}}`, `{}`, "spec.storage.embedded", "storageClassName cannot be changed"),
		Entry("the kind of storage", `{}`, `{storage: {`+etcd+`}}`, "spec.storage", "the kind of storage cannot be changed"),
		Entry("the kind of storage back", `{storage: {`+etcd+`}}`, `{}`, "spec.storage", "the kind of storage cannot be changed"),
		Entry("the prefix", `{storage: {`+onEtcdWith(`prefix: /a`)+`}}`, `{storage: {`+onEtcdWith(`prefix: /b`)+`}}`, "spec.storage.etcd", "prefix cannot be changed"),
		Entry("the default prefix", `{storage: {`+etcd+`}}`, `{storage: {`+onEtcdWith(`prefix: /b`)+`}}`, "spec.storage.etcd", "prefix cannot be changed"),
		Entry("all members", `{storage: {`+etcd+`}}`, `{storage: {etcd: {endpoints: ["https://b:1"], secretName: s}}}`, "spec.storage.etcd.endpoints", "add the new ones first"),
		Entry("the resources of other etcds", `{storage: {`+onEtcdWith(`overrides: [{resource: events, endpoints: ["https://a:1"]}]`)+`}}`, `{storage: {`+etcd+`}}`, "spec.storage.etcd", "overrides cannot be added"),
		Entry("all members of another etcd", `{storage: {`+onEtcdWith(`overrides: [{resource: events, endpoints: ["https://a:1"]}]`)+`}}`,
			`{storage: {`+onEtcdWith(`overrides: [{resource: events, endpoints: ["https://b:1"]}]`)+`}}`, "spec.storage.etcd.overrides[0].endpoints", "add the new ones first"),
	)
})
