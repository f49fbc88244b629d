// What test_page.py asks of the page: a function each, which returns a list of what is wrong.

// Every visible text with less contrast than 4.5 to the nearest background behind it (WCAG 2, success criterion 1.4.3)
function faint() {
  const light = channel => (channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);
  const parse = text => text.match(/[\d.]+/g).map(part => Number(part) * (text.startsWith('color(srgb') ? 255 : 1));
  const luminance = ([r, g, b]) => 0.2126 * light(r / 255) + 0.7152 * light(g / 255) + 0.0722 * light(b / 255);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.textContent.trim() || !parent.checkVisibility() || parent.closest('script, style, noscript')) continue;
    const style = getComputedStyle(parent), colour = style[parent.closest('svg') ? 'fill' : 'color'];
    if (!colour.startsWith('rgb')) continue;
    const [a, b] = [parse(colour), behind(parent.closest('svg')?.parentElement ?? parent)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${node.textContent.trim().slice(0, 40)}`);
  }
  return found;
}

// Every link, button or choice that is less than 24 pixels high (success criterion 2.5.8)
function small() {
  return [...document.querySelectorAll('a, button, select, summary, input, .choices label')].filter(element => {
    const target = element.closest('.choices label') ?? element;
    return element.checkVisibility() && target.getBoundingClientRect().height < 24;
  }).map(element => element.outerHTML.slice(0, 80));
}

// Of every chart: pairs of texts that overlap
function overlapping() {
  return [...document.querySelectorAll('.chart svg')].flatMap(svg => {
    const texts = [...svg.querySelectorAll('.mark-text text')].filter(text => text.textContent.trim());
    const boxes = texts.map(text => text.getBoundingClientRect());
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    return texts.flatMap((text, i) => texts.slice(0, i).filter((_, j) => meet(boxes[i], boxes[j]))
      .map(other => `${text.textContent} over ${other.textContent}`));
  });
}

// Every name of an element that has no role to be named (ARIA 1.2, 5.2.8.6)
function named() {
  return [...document.querySelectorAll('div[aria-label]:not([role])')].map(element => element.outerHTML.slice(0, 80));
}
