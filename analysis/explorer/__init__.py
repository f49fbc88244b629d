"""The explorer: one HTML page, results/explorer.html, on which a reader walks the ladders step by
step.

`content` gathers the page's data, `charts` describes its charts for Vega-Lite, and `page.js` draws
what the URL's hash asks for. The page loads nothing from elsewhere.
"""
