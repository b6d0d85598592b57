#!/usr/bin/env bash
# Runs a command beside a Kubernetes cluster of one real node, and takes the cluster down:
#
#   node.sh BIN IMAGE... -- COMMAND
#
# BIN has the programs of Kubernetes, etcd and pause, and BIN/olm those of OLM; IMAGEs are tarballs for the node. All of it is in
# namespaces of its own for the network and for mounts, so that nothing is opened on this
# machine, and its settings stay as they are. There is no cluster DNS. The command has
# KUBECONFIG of an administrator, and the environment variables NODE with the node's address and SMALL
# with the directory of a small volume.
#
# It needs root, and containerd, runc, containernetworking-plugins, nftables, ipset, iptables,
# iproute2, openssl and util-linux of Debian.
set -euo pipefail

if [[ -z ${NODE_INSIDE:-} ]]; then
	for program in ip unshare nft ipset iptables containerd ctr runc openssl; do
		command -v "$program" >/dev/null || { echo "node.sh: $program is not installed" >&2; exit 1; }
	done
	NODE_INSIDE=yes exec unshare --net --mount --propagation private -- "$0" "$@"
fi

bin=$(realpath "$1"); shift
images=()
while [[ $1 != -- ]]; do images+=("$(realpath "$1")"); shift; done
shift

dir=$(mktemp -d /tmp/tenantry-node-XXXXXX)
cgroup=tenantry-node-$$
export NODE=10.244.0.1 KUBECONFIG=$dir/admin.kubeconfig CONTAINERD_ADDRESS=$dir/containerd.sock CONTAINERD_NAMESPACE=k8s.io
services=10.43.0.0/16
pids=()

# cgroups lists the cluster's directory in every hierarchy.
cgroups() {
	if [[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]]; then
		echo "/sys/fs/cgroup/$cgroup"
	else
		while IFS=: read -r _ controllers _; do
			echo "/sys/fs/cgroup/$([[ -z $controllers ]] && echo unified || echo "${controllers#name=}")/$cgroup"
		done </proc/self/cgroup
	fi
}

down() {
	local status=$? id i
	set +e
	trap - EXIT
	# What runs containers ends before what started it.
	for ((i = ${#pids[@]} - 1; i > 0; i--)); do kill "${pids[i]}"; wait "${pids[i]}"; done
	for id in $(ctr tasks ls -q); do ctr tasks rm -f "$id"; done
	for id in $(ctr containers ls -q); do ctr containers rm "$id"; done
	kill "${pids[0]}"; wait "${pids[0]}"
	mount | awk -v dir="$dir/" 'index($3, dir) == 1 { print $3 }' | sort -r | xargs -r umount
	cgroups | while read -r path; do [[ ! -d $path ]] || find "$path" -depth -type d -exec rmdir {} +; done
	if ((status == 0)); then rm -rf "$dir"; else echo "node.sh: logs are in $dir/log"; fi
	exit "$status"
} 2>/dev/null

run() { # name, command...
	local name=$1; shift
	"$@" >"$dir/log/$name" 2>&1 &
	pids+=($!)
}

until_ready() { # what, command...
	local what=$1 deadline=$((SECONDS + 180)); shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < deadline)) || { echo "node.sh: $what is not ready" >&2; exit 1; }
		sleep 0.2
	done
}

kubeconfig() { # file, token
	cat >"$dir/$1" <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "https://$NODE:6443", certificate-authority: $dir/certs/apiserver.crt}}]
		users: [{name: u, user: {token: $2}}]
		contexts: [{name: c, context: {cluster: c, user: u}}]
		current-context: c
	YAML
}

mkdir -p "$dir"/{log,certs,run,containerd,kubelet,podlogs,sysctl,cni,volume,small}
export SMALL=$dir/small # which may be filled
mount -t tmpfs -o mode=0777,size=256m tmpfs "$SMALL"
# Daemons keep some files at fixed places, and the kubelet insists on settings of the kernel.
for path in /run/netns /run/containerd /var/lib/cni /var/lib/kubelet /var/log/containers; do
	mkdir -p "$path"
	mount -t tmpfs -o mode=0755 tmpfs "$path"
done
for file in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	[[ -e /proc/sys/$file ]] || continue
	cat "/proc/sys/$file" >"$dir/sysctl/${file//\//.}"
	mount --bind "$dir/sysctl/${file//\//.}" "/proc/sys/$file"
done
ip link set lo up
ip link add pods0 type bridge
ip address add $NODE/24 dev pods0
ip link set pods0 up
ip route add default dev pods0 # so that addresses of Services are routed at all
cgroups | xargs mkdir -p

cat >"$dir/containerd.toml" <<TOML
version = 2
root = "$dir/containerd"
state = "$dir/run"
[grpc]
  address = "$CONTAINERD_ADDRESS"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
TOML
cat >"$dir/cni/10-pods.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$dir/run/ipam",
    "ranges": [[{"subnet": "10.244.0.0/24", "gateway": "$NODE"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
cat >"$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $dir/certs/client.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$CONTAINERD_ADDRESS
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
podLogsDir: $dir/podlogs
resolvConf: ""
syncFrequency: 5s # after which files follow their ConfigMaps
volumePluginDir: $dir/kubelet/plugins
YAML
cat >"$dir/kube-proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node
clusterCIDR: 10.244.0.0/24
clientConnection: {kubeconfig: $dir/proxy.kubeconfig}
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
YAML
openssl ecparam -name prime256v1 -genkey -noout -out "$dir/certs/sa.key"
# By which the API server asks the kubelet for logs and ports of pods, and servers that it aggregates.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /O=system:masters/CN=apiserver \
	-keyout "$dir/certs/client.key" -out "$dir/certs/client.crt" 2>/dev/null
cat >"$dir/tokens" <<CSV
admin,admin,1,"system:masters"
kubelet,system:node:node,2,"system:nodes"
proxy,system:kube-proxy,3
CSV
for user in admin kubelet proxy; do kubeconfig $user.kubeconfig $user; done

trap down EXIT
run containerd containerd --config "$dir/containerd.toml"
until_ready containerd ctr version
for image in "${images[@]}"; do ctr images import "$image" >/dev/null; done
run etcd "$bin/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync
run apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address=$NODE \
	--cert-dir="$dir/certs" --token-auth-file="$dir/tokens" --authorization-mode=Node,RBAC --service-cluster-ip-range=$services \
	--kubelet-client-certificate="$dir/certs/client.crt" --kubelet-client-key="$dir/certs/client.key" --kubelet-preferred-address-types=InternalIP \
	--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$dir/certs/sa.key" \
	--service-account-signing-key-file="$dir/certs/sa.key" --endpoint-reconciler-type=lease --enable-admission-plugins=NodeRestriction \
	--requestheader-client-ca-file="$dir/certs/client.crt" --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
	--requestheader-extra-headers-prefix=X-Remote-Extra- --proxy-client-cert-file="$dir/certs/client.crt" --proxy-client-key-file="$dir/certs/client.key"
until_ready "the API server" "$bin/kubectl" get --raw /readyz
run controllers "$bin/kube-controller-manager" --kubeconfig="$KUBECONFIG" --root-ca-file="$dir/certs/apiserver.crt" \
	--service-account-private-key-file="$dir/certs/sa.key" --use-service-account-credentials --leader-elect=false --bind-address=127.0.0.1
run scheduler "$bin/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1
run proxy "$bin/kube-proxy" --config="$dir/kube-proxy.yaml"
run kubelet "$bin/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubelet.kubeconfig" --root-dir="$dir/kubelet" \
	--cert-dir="$dir/certs/kubelet" --hostname-override=node --node-ip=$NODE
until_ready "the node" "$bin/kubectl" wait --for=condition=Ready node/node --timeout=1s
"$bin/kubectl" apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: local}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: $dir/volume}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: small}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: $dir/small}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
YAML
PATH=$bin:$bin/olm:$PATH "$@"
